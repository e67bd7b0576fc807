r"""How secret and private things look: the one list of patterns, for build logs, reports, drafts and pages.

Tokens are known by the formats that their makers publish. Own table rather than detect-secrets: of the 27 kinds
below it knows 15 (no Hugging Face, Google, Docker Hub or Conda), of a private key it finds the first line only, and its
entropy rules take digests and commits, which reports are full of, for secrets. Nothing here goes by entropy.

Every pattern is bounded or possessive in effect, so that the time is linear in the length of the text.
"""

from __future__ import annotations

import re

TOKENS: dict[str, str] = {
    "github-token": r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}",
    "gitlab-token": r"gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_.=-]{20,300}",
    "huggingface-token": r"(?:hf|api_org)_[A-Za-z0-9]{30,40}",
    "aws-access-key": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "google-api-key": r"AIza[A-Za-z0-9_-]{35}",
    "google-oauth": r"ya29\.[A-Za-z0-9_-]{20,2000}|GOCSPX-[A-Za-z0-9_-]{20,40}|1//0[A-Za-z0-9_-]{30,200}",
    "slack-token": r"xox[abceoprs][-.][A-Za-z0-9.-]{10,500}|xapp-\d-[A-Za-z0-9-]{10,500}",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,200}",
    "discord-webhook": r"discord(?:app)?\.com/api/webhooks/\d{5,30}/[A-Za-z0-9_-]{20,100}",
    "anthropic-key": r"sk-ant-[A-Za-z0-9_-]{16,300}",
    "openai-key": r"sk-(?:(?:proj|svcacct|admin|service|None|or-v1)-[A-Za-z0-9_-]{16,300}|[A-Za-z0-9]{20,200})",
    "stripe-key": r"(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{10,250}|whsec_[A-Za-z0-9+/=]{20,100}",
    "npm-token": r"npm_[A-Za-z0-9]{36}",
    "pypi-token": r"pypi-[A-Za-z0-9_-]{50,1000}",
    "docker-token": r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,100}",
    "digitalocean-token": r"do[opr]_v1_[a-f0-9]{64}",
    "databricks-token": r"dapi[a-f0-9]{32}(?:-\d)?",
    "replicate-token": r"r8_[A-Za-z0-9]{37}",
    "groq-key": r"gsk_[A-Za-z0-9]{40,60}",
    "sendgrid-key": r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",
    "twilio-key": r"SK[0-9a-f]{32}",
    "telegram-token": r"\d{8,10}:AA[A-Za-z0-9_-]{33}",
    "vault-token": r"hv[sbr]\.[A-Za-z0-9_-]{20,300}",
    "atlassian-token": r"ATATT3[A-Za-z0-9_=-]{50,300}",
    "age-key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "pem": r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,20000}",  # in base64, as kubeconfig has keys and certificates
    "jwt": r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,4000})?",
}
KINDS = {f"t{number}": kind for number, kind in enumerate(TOKENS)}
TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    + "|".join(f"(?P<t{number}>{pattern})" for number, pattern in enumerate(TOKENS.values()))
    + ")+"  # one right behind another: by itself it would not begin a word
)
PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----))*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\\n|\s){1,4}[A-Za-z0-9+/=]{16,200})*)"
)
CONDA = re.compile(r"(?<=/t/)[a-z]{2}-[0-9a-f]{8}-[0-9a-f-]{20,40}(?=/)")
IN_URL = re.compile(r"(?<=://)(?!git@)[^\s/?#'\"<>`|\\]{1,300}@")
URL_LOGIN = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<login>[^\s/?#'\"]*)@")
"""The login of a URL, of which everything before the last ``@`` is taken."""
BARE_LOGIN = re.compile(r"(?<![\w./%+-])([\w.%+-]+:)[^\s/@'\"]+@")
"""The login of an address without scheme."""
IN_ADDRESS = re.compile(
    r"(?<![\w.+@:/-])[\w.+-]{1,60}:[^\s@/:'\"<>`|\\]{1,100}(?=@(?!sha\d)[A-Za-z0-9][A-Za-z0-9.-]{0,100}:\d{2,5}(?!\d))",
    re.ASCII,
)
"""Of a proxy without a scheme: ``user:password@host:3128``."""
TYPED = re.compile(
    r"(?P<keep>\bcurl\b[^\n|;]{0,300}?[ \t](?:-[uU]|--user|--proxy-user)(?:[ \t]{1,4}|=)?[\"']?[\w.@+-]{1,60}:)"
    r"(?P<value>[^\s\"'<>]{1,200})"
    r"|(?P<keep2>\bsshpass[ \t]{1,4}-p[ \t]{0,4}|\bmysql(?:dump|admin)?\b[^\n|;]{0,200}?[ \t]-p"
    r"|\b(?:machine[ \t]{1,4}\S{1,100}|default)\s{1,8}login\s{1,8}\S{1,100}\s{1,8}password\s{1,8})"
    r"(?P<value2>[^\s<>\"'()-][^\s<>\"'()]{0,200})"
)
"""Passwords as commands and ``.netrc`` have them."""
SCHEME = r"(?:bearer|basic|token|digest|negotiate|apikey)\s{1,4}"
HEADER = re.compile(
    rf"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?:{SCHEME})?)(?!{SCHEME})(?P<value>[^\s\"'<>]{{4,4000}})"
    r"|(?P<keep2>\bbearer\s{1,4})(?P<value2>[A-Za-z0-9._~+/-]{12,4000}={0,2})"
    r"|(?P<keep3>\b(?:set-)?cookie[\"']?\s{0,4}:\s{0,4}[\"']?)(?P<value3>[^\r\n\"'<>]{4,4000})"
)

ALWAYS = (
    "secret|passwd|password|passphrase|[_-]pwd|credentials?|apikey|api[_-](?:key|secret)"
    "|x-(?:amz|goog)-(?:signature|credential)"
    "|(?:access|secret|private|auth|account|encryption|signing|license|session|client|wandb|kaggle)[_-]?key"
    "|(?:access|auth|api|private|session|security|refresh|bearer)[_-]?token"
)
"""Ends of names whose values are secret whatever they look like."""
CERTAIN = re.compile(rf"(?i:{ALWAYS})$|(?:TOKEN|_KEY|PASS)$")
AMIDST = (
    r"(?<![A-Z\d])(?:SECRETS?|TOKENS?|PASSWORD|PASSWD|CRED(?:ENTIAL)?S?|PAT|JWT|COOKIE|API_?KEY|ACCESS_KEY|DSN|WEBHOOK)"
)
"""Words that make secret what stands for a variable where it looks like a secret, whatever follows them."""
HINT = re.compile("(?i)secret|pass|pwd|cred|key|token|x-amz|x-goog|sig|auth|jwt|cookie|_pat|dsn|webhook")
NAMED = re.compile(
    rf"(?<![\w.-])(?P<name>(?P<option>--?)?[\w.-]{{0,80}}(?:(?i:{ALWAYS}|token|(?<![a-z])(?:auth|pwd)|(?<=[?&])sig(?:nature)?)"
    rf"|(?<=_)KEY|PASS|{AMIDST}(?:_[A-Z\d]{{1,16}}){{0,3}}))"
    r"(?:\\?[\"']?(?:[ \t]{0,4}:[ \t]{0,4}[A-Za-z]{1,20}(?=[ \t]{0,4}=))?[ \t]{0,4}(?:={1,3}>?|:=?)[ \t]{0,4}"
    r"|(?(option)[ \t]{1,4}|(?!)))"
    r"(?P<quote>\\?[\"'])?(?P<value>(?(quote)[^\"'\\\r\n]|[^\s\"'&;|()\[\]{}<>\\]){1,4000})"
)
CODE = re.compile(r"(?i)(?:[\w.]{0,100}[._])?(?:secret|passw(?:or)?d|passphrase|pwd|key|token|credentials?)")
NOTHING = re.compile(
    r"(?i)(?:true|false|yes|no|on|off|none|null|nil|str|int|bytes|bool|string|optional|any|\*+|\.+|x{3,}|[$%].*|-.*|~.*"
    r"|<[^>]{0,60}>)[,.]?"
)
RANDOM = re.compile(r"(?=[^\d]{0,60}\d)(?=[^A-Za-z]{0,60}[A-Za-z])[\w~+/.=!@#$%^*,-]{8,4000}", re.ASCII)

KEPT_HOMES = frozenset({"repro", "linuxbrew", "Shared", "Public", "Default"})
HOME = re.compile(
    r"(?:(?<![\w.~/-])|(?<=-[A-Za-z])|(?<=file://))(?:/[\w.-]{1,40}){0,2}/(?:home|Users)/(?P<unix>\w[\w-]*(?:\.[\w-]+)*)"
    r"|(?<![A-Za-z])[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)(?P<windows>\w[\w-]*(?:[. ][\w-]+){0,3}(?=[\\/])|\w[\w.-]*)"
    r"|(?<![\w.~/-])/[a-z]/Users/(?P<msys>\w[\w.-]*)",
    re.MULTILINE,
)
PROMPT = re.compile(
    r"^(?P<before>(?:\([\w./ -]{1,60}\) ?)?\[?)(?P<user>[A-Za-z_][\w.-]{0,40})@(?P<host>[A-Za-z0-9][\w.-]{0,80})"
    r"(?=(?::[^\n#$%>]{0,200}|[ ][^\n#$%>@:]{0,80}\]?)[#$%>])",
    re.MULTILINE,
)
SSH = re.compile(
    r"(?P<keep>\b(?:ssh|scp|sftp|rsync|mosh)\b[^\n|;&@]{0,200}[ \t=\"'])(?!git@)(?P<user>[A-Za-z_][\w.-]{0,40})@"
    r"[A-Za-z0-9][\w.-]{0,80}"
)
AT_HOST = re.compile(r"(?<![\w.+@:/<-])(?!git@)(?P<user>[A-Za-z_][\w.+-]{0,63})(?=@<host>)", re.ASCII)
"""The user at a host whose name is known, and is taken out before anything else is looked for."""
EMAIL = re.compile(
    r"(?<![\w.+/:-])(?!git@)[A-Za-z0-9_][\w.+-]{0,63}@(?=[A-Za-z])[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,24}\b",
    re.ASCII,
)
INTERNAL = re.compile(
    r"(?<![\w.-])(?:(?=[a-z]{0,60}[\d-])[a-z\d][a-z\d-]{0,62}(?:\.[a-z\d-]{1,63}){0,4}\.(?:local|internal|private)"
    r"|[a-z\d][a-z\d-]{0,62}(?:\.[a-z\d-]{1,63}){0,4}\.(?:lan|corp|intranet|localdomain|home\.arpa))(?![\w(-]|\.\w)"
)
GENERIC = frozenset(
    {"localhost", "host", "server", "node", "desktop", "laptop", "docker", "builder", "runner", "build", "test"}
    | {"user", "users", "root", "admin", "nobody", "vagrant", "jovyan", "work", "data", "main", "home", "repro"}
    | {"ubuntu", "debian", "linux", "python", "conda", "gpu", "cuda", "torch", "pytorch", "paddle"}
)
"""Names of hosts and users that say nothing, and stand in texts for other things."""
ROBOTS = frozenset({"__token__", "oauth2", "oauth2accesstoken", "git", "token", "x-access-token", "anonymous", "aws"})
"""Names that services ask for beside a token."""
