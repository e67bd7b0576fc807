"""How secret things look: the formats that makers of tokens publish, gitleaks' rules beside them, and words that
letters and digits make by chance. Every pattern is bounded or possessive in effect, so that the time is linear in the
text.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

TOKENS: dict[str, str] = {
    "github-token": r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}",
    "gitlab-token": r"gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_.=-]{20,300}",
    "huggingface-token": r"(?:hf|api_org)_[A-Za-z0-9]{30,40}",
    "aws-access-key": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "aws-session-token": r"(?:FwoGZXIvYXdz|IQoJb3JpZ2lu|AQoDYXdz|FQoGZXIvYXdz)[A-Za-z0-9+/=]{100,4000}",
    "azure-secret": r"[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{31,37}",
    "google-api-key": r"AIza[A-Za-z0-9_-]{35}",
    "google-oauth": r"ya29\.[A-Za-z0-9_-]{20,2000}|GOCSPX-[A-Za-z0-9_-]{20,40}|1//0[A-Za-z0-9_-]{30,200}",
    "slack-token": r"xox[abceoprs][-.][A-Za-z0-9.-]{10,500}|xapp-\d-[A-Za-z0-9-]{10,500}",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,200}",
    "webhook": r"(?:open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v2/)?hook/[\w-]{16,100}"
    r"|oapi\.dingtalk\.com/robot/send\?access_token=\w{16,100}"
    r"|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[\w-]{16,100})",
    "discord-token": r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    "nvidia-key": r"nvapi-[A-Za-z0-9_-]{40,100}",
    "alibaba-key": r"LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])",
    "tencent-key": r"AKID[A-Za-z0-9]{28,36}(?![A-Za-z0-9])",
    "feishu-app": r"cli_a[a-z0-9]{15}(?![A-Za-z0-9])",
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
    "terraform-token": r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}",
    "mailchimp-key": r"[0-9a-f]{32}-us\d{1,2}(?![\w-])",
    "atlassian-token": r"ATATT3[A-Za-z0-9_=-]{50,300}",
    "age-key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "pem": r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,20000}",  # in base64, as kubeconfig has keys and certificates
    "jwt": r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,4000})?",
}
KINDS = {f"t{number}": kind for number, kind in enumerate(TOKENS)}
KINDS["others"] = "token"


@cache
def token() -> re.Pattern[str]:
    """Every token that is known by its format; compiled once it is needed, which takes a while."""
    ours = "|".join(f"(?P<t{number}>{pattern})" for number, pattern in enumerate(TOKENS.values()))
    lines = Path(__file__).with_name("gitleaks.txt").read_text(encoding="utf-8").splitlines()
    theirs = "|".join(line.partition(" ")[2] for line in lines if not line.startswith("#"))
    # One right behind another: by itself it would not begin a word. Behind \\n, as JSON writes it, one begins.
    return re.compile(
        r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))(?=[A-Za-z0-9][\w+/=.~:%-]{14})"
        rf"(?:{ours}|(?P<others>(?:{theirs})(?![A-Za-z0-9])))+"
    )


LED = re.compile(r"(?<![\w./+=~%@-])(?=[A-Za-z0-9]{2,32}[_.-])[A-Za-z0-9_.-]{24,300}(?<![.-])(?![\w/+=@])", re.ASCII)
"""A word led by another (``acme_live_4f...``), which is a token where :func:`by_chance` says so."""
_RUN = re.compile("[A-Za-z0-9]{16}")


def by_chance(word: str) -> bool:
    """Whether letters and digits follow each other as chance has it: in names they come in groups."""
    if not _RUN.search(word) or "_Z" in word:
        return False
    classes = ["d" if one in "0123456789" else "u" if one.isupper() else "l" for one in word if one.isalnum()]
    changes = sum(one != other for one, other in pairwise(classes))
    return min(map(classes.count, "dul")) >= 2 and changes >= 0.42 * len(classes)


PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----))*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\\n|\s){1,4}[A-Za-z0-9+/=]{16,200})*)"
)
PGP = re.compile(
    r"-----BEGIN PGP [A-Z ]{1,40}-----(?:(?:[^-]|-(?!----)){0,100000}-----END PGP [A-Z ]{1,40}-----"
    r"|(?:\s{1,4}[\w+/=: .]{1,200}){0,1000})"
)
SSH_KEY = re.compile(
    r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}|sk-[\w-]{6,30}@openssh\.com) AAAA[A-Za-z0-9+/]{30,2000}={0,3}"
    r"(?: [\w.+-]{1,64}@[\w.-]{1,100})?"
)
CONDA = re.compile(r"(?<=/t/)[a-z]{2}-[0-9a-f]{8}-[0-9a-f-]{20,40}(?=/)")
IN_URL = re.compile(r"(?<=://)(?!git@)[^\s/?#'\"<>`|\\]{1,300}@")
URL_LOGIN = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,40}://)(?P<login>[^\s/?#'\"]*)@")
"""The login of a URL, of which everything before the last ``@`` is taken."""
BARE_LOGIN = re.compile(r"(?<![\w./%+-])([\w.%+-]+:)[^\s/@'\"]+@")
"""The login of an address without scheme."""
IN_ADDRESS = re.compile(
    r"(?<![\w.+@:/-])[\w.+-]{1,60}:[^\s@/:'\"<>`|\\]{1,100}(?=@(?!sha\d)[A-Za-z0-9][A-Za-z0-9.-]{0,100}:\d{2,5}(?!\d))",
    re.ASCII,
)
"""Of a proxy without a scheme: ``user:password@host:3128``."""
_GOES_ON = r"(?:\\\r?\n[ \t]{0,40})?"
"""A command goes on in the next line."""
OPTION = re.compile(
    rf"(?<=[ \t])(?P<option>-[uUbpPa]|--(?:proxy-)?user|--cookie|--pass)(?P<by>[ \t]{{1,4}}{_GOES_ON}|=|)"
    r"(?P<quote>[\"'])?(?P<value>(?(quote)[^\"'\n<>]{1,2000}|[^\s\"'<>$\\-][^\s\"'<>]{0,2000}))"
)
"""Options that hold a password in some commands (:func:`typed_by`)."""
_TYPED_BY = {
    "-p": r"(?:\bsshpass|[ \t]login)\b",
    "-p attached": r"\b(?:mysql(?:dump|admin)?|7z[ar]?|(?:un)?rar|sshpass)\b|[ \t]login\b",
    "-P": r"\bunzip\b",
    "-a": r"\bredis-cli\b",
    "--pass": r"\bredis-cli\b",
}
_TYPED_IN = {option: re.compile(commands) for option, commands in _TYPED_BY.items()}
_CURL = re.compile(r"\bcurl\b")
_COMMAND = 300
"""Characters of a command that are looked at."""


def typed_by(match: re.Match[str]) -> str | None:
    """What of the value of an option is not secret, in the command that the option is given to; None where all is."""
    before = re.split(r"(?<!\\)(?<!\\\r)\n|[|;&]", match.string[max(0, match.start() - _COMMAND) : match.start()])[-1]
    option, value = match["option"], match["value"]
    user, colon, password = value.partition(":")
    if option in ("-u", "-U", "--user", "--proxy-user"):
        return user + colon if password and _CURL.search(before) else None
    if option in ("-b", "--cookie"):
        return "" if "=" in value and _CURL.search(before) else None
    commands = _TYPED_IN.get(option if match["by"] or option != "-p" else "-p attached")
    return "" if commands and commands.search(before) else None


TYPED_HINT = re.compile("login|hit enter|--password-stdin|sudo -S|passw|pass(?:in|out)? pass:|--passphrase|keyring")
TYPED = re.compile(
    r"(?P<keep>\bwandb(?:\.exe)?[ \t]{1,4}login[ \t]{1,4}(?:--[\w-]{1,30}(?:=\S{1,100})?[ \t]{1,4}){0,4}"
    r"|\bwandb\.login\((?:[^)\n]{0,60}[ ,])?key[ \t]{0,4}=[ \t]{0,4}"
    r"|\bhit enter(?:, or press [\w ]{1,30})?:[ \t]{1,4}"
    r"|\becho[ \t]{1,4}(?:-n[ \t]{1,4})?(?=[\"']?[^\s|]{1,200}[ \t]{0,4}\|[ \t]{0,4}"
    r"(?:[^\n|]{0,200}--password-stdin|sudo[ \t]{1,4}-S|chpasswd))"
    r"|\b(?:machine[ \t]{1,4}\S{1,100}|default)\s{1,8}login\s{1,8}\S{1,100}\s{1,8}password\s{1,8}"
    r"|-pass(?:in|out)?[ \t]{1,4}pass:|--passphrase(?:[ \t]{1,4}|=))"
    r"(?:(?P<quote>[\"'])(?P<value>[^\"'\n<>]{1,2000})|(?P<value2>[^\s<>\"'(){}$%|-][^\s<>\"'()|]{0,300}))"
)
"""Passwords as commands and ``.netrc`` have them."""
CALLED = re.compile(
    r"(?P<keep>\.login\(\s{0,4}(?:token[ \t]{0,4}=[ \t]{0,4})?[\"'])(?P<value>[\w~+/.=-]{16,300})(?=[\"'])", re.ASCII
)
KAGGLE = re.compile(
    r"(?P<keep>[\"']username[\"']\s{0,4}:\s{0,4}[\"'][^\"'\n]{0,60}[\"']\s{0,4},\s{0,4}[\"']key[\"']\s{0,4}:\s{0,4}[\"'])(?P<value>[0-9a-f]{32})"
)
ELEMENT = re.compile(
    r"(?i)(?P<keep><(?:\w{1,30}[.:_-]?)?(?:password|passwd|secret|token|api[_-]?key)>\s{0,8})(?P<value>[^<>\s]{3,300})(?=\s{0,8}</)"
)
SCHEME = r"(?:bearer|basic|token|digest|negotiate|apikey)\s{1,4}"
HEADER = re.compile(
    rf"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?:{SCHEME})?)(?!{SCHEME})(?P<value>[^\s\"'<>]{{4,4000}})"
    r"|(?P<keep2>\bbearer\s{1,4})(?P<value2>[A-Za-z0-9._~+/-]{12,4000}={0,2})"
    r"|(?P<keep3>\b(?:set-)?cookie[\"']?\s{0,4}:\s{0,4}[\"']?)(?P<value3>[^\r\n\"'<>]{4,4000})"
)
HEADER_HINT = re.compile("[Aa]uthorization|AUTHORIZATION|[Bb]earer|BEARER|[Cc]ookie|COOKIE")


def _any_case(*words: str) -> str:
    """Words in any case, so that a search finds their first letters fast."""
    return "|".join(
        f"[{word[0].upper()}{word[0]}](?i:{word[1:]})" if word[0].isalpha() else f"(?i:{word})" for word in words
    )


ALWAYS = _any_case(
    "secret(?:[_-]?key(?:[_-]id)?)?",
    "pass(?:w(?:or)?d|phrase|code)",
    "[_-]pwd",
    "credentials?",
    "api(?:key|[_-](?:key|secret)|[_-]?token)",
    "x-(?:amz|goog)-(?:signature|credential)",
    "a(?:ccess|uth)[_-]?(?:key(?:[_-]id)?|token)",
    *(f"{word}[_-]?(?:key(?:[_-]id)?|token)" for word in ("private", "session")),
    *(f"{word}[_-]?key(?:[_-]id)?" for word in ("account", "encryption", "signing", "license", "client")),
    *(f"{word}[_-]?key" for word in ("wandb", "kaggle", "storage")),
    *(f"{word}[_-]?token" for word in ("security", "refresh", "bearer")),
)
"""Ends of names whose values are secret whatever they look like."""
CERTAIN = re.compile(rf"(?:{ALWAYS})$|(?:TOKEN|_KEY|PASS)$")
AMIDST = (
    r"(?<![A-Z\d])(?:SECRETS?|TOKENS?|PASSWORD|PASSWD|CRED(?:ENTIAL)?S?|PAT|JWT|COOKIE|API_?KEY|ACCESS_KEY|DSN|WEBHOOK)"
)
"""Words that make secret what stands for a variable where it looks like a secret, whatever follows them."""
NAMED = re.compile(
    rf"(?:{ALWAYS}|[Tt](?i:oken)"
    r"|[Aa](?<![a-z]a)(?i:uth)|[Pp](?<![a-z]p)(?i:wd)"
    r"|sig(?<=[?&]sig)(?:nature)?|key(?<=[?&]key)"
    rf"|KEY(?<=_KEY)|PASS|PAT(?<=_PAT)|{AMIDST}(?:_[A-Z\d]{{1,16}}){{0,3}})"
    r"(?P<by>\\?(?:[\"']\]?)?(?:[ \t]{0,4}:[ \t]{0,4}[A-Za-z]{1,20}(?=[ \t]{0,4}=))?"
    rf"[ \t]{{0,4}}(?:={{1,3}}>?|:=?)[ \t]{{0,4}}{_GOES_ON}"
    r"|[\"']?\n[ \t]{0,40}[\"']?value[\"']?[ \t]{0,4}:[ \t]{0,4}"
    rf"|(?P<apart>[ \t]{{0,20}}[|\u2502][ \t]{{0,8}}|[ \t]{{1,20}}{_GOES_ON}))"
    r"(?P<quote>\\?[\"'])?(?P<value>(?(quote)[^\"'\\\r\n]{1,4000}|[^\s\"'&;|()\[\]{}<>\\\u2502]{1,4000}))"
)
"""The end of a name (:data:`NAME`), and what stands behind it."""
_HINTS = ("secret", "pass", "pw", "pin", "cred", "key", "token", "auth", "sig", "pat", "jwt", "cookie", "dsn")
_MORE_HINTS = ("webhook", "x-amz", "x-goog")


def may_name(text: str) -> bool:
    """Whether a name or a word of a secret may be in a text: looked for before patterns are, which takes longer."""
    for placeholder in ("<secret>", "<credentials>", "<authorization>"):
        text = text.replace(placeholder, "")
    low = text.lower()
    return any(hint in low for hint in (*_HINTS, *_MORE_HINTS))


NAME = re.compile(r"[\w.-]{0,80}\Z")
_LONGEST_NAME = 80


def name_of(match: re.Match[str]) -> str:
    """The whole name whose end a match of :data:`NAMED` begins with."""
    before = match.string[max(0, match.start() - _LONGEST_NAME) : match.start()]
    start = NAME.search(before)
    return (start[0] if start else "") + match.string[match.start() : match.start("by")]


_SAYS = _any_case(
    "pass(?:word|wd|phrase|code)?",
    "p(?:wd|w)",
    # As a verb it comes before versions: "pin numpy==1.26.4", "pin it to 2.0".
    r"pin(?: code)?(?=[ \t]{0,3}[:=是为]|[ \t]{1,3}(?:is|was)\b|[ \t]{1,3}[\"'`]?\d{4,12}(?![\w.]))",
    "credentials?",
    "secret(?:(?: access)?[ -]?(?:key|token|secret)s?(?: secret| id)?)?",
    "a(?:pi|ccess|ccount|uth)[ -]?(?:key|token|secret)s?(?: secret| id)?",
    *(
        f"{word}[ -](?:key|token|secret)s?"
        for word in ("storage", "license", "private", "client", "kaggle", "comet", "w(?:andb|&b)")
    ),
    "token",
)
IN_WORDS = re.compile(
    rf"(?P<name>{_SAYS}|[A-Z]\w{{1,20}} (?:key|token))"
    r"(?P<sep>[ \t]{1,3}(?:is|was|are|to|of|as)[ \t]{1,3}|[ \t]{0,3}[:=是为][ \t]{0,3}"
    r"|[ \t]{1,3}(?=[\"'`])|[ \t]{1,3}(?=[^\s\"'`]{0,300}\d))(?P<quote>[\"'`])?"
    r"(?P<value>(?(quote)[^\"'`\n]{3,300}|[^\s\"'`<>()\[\]{},;|│。，一-鿿]{3,300}))(?P<after>[ \t]{0,2}[\w(\[\"']?)"
)
"""Passwords and keys as people write them in sentences."""
GUEST = re.compile(
    r"(?i)(?P<keep>\b(?:credentials?|login|account|user(?:name)?)[ \t]{0,3}[:= \t][ \t]{0,3}[\w.@-]{1,40}"
    r"(?:[ \t]{0,3}/[ \t]{0,3}|[ \t,;/]{1,3}(?:(?:and|with)[ \t])?(?:pass(?:word|wd)?|pw)[ \t:=]{1,3})[\"'`]?)"
    r"(?P<value>[^\s\"'`<>()\[\]{},;|/]{3,100})(?=[\"'`]?(?:\s|$|[,.;]))"
)
NOT_SAID = frozenset(
    """
    a above accepted access already also always an asked at auth authentication available bad be been being below by
    changed checked classification correct count created default denied different displayed embedding embeddings
    empty encrypted entered equal error expired exposed failure field file fine for forgotten found from generated
    given good hash hashed here hidden his id identical ids ignored in incorrect index invalid it its just known
    leaked length like limit loaded logged login long longer lost manager mandatory missing my needed never no none
    not now null ok okay omitted on one only optional our passed position printed prompt prompted protected provided
    read redacted refused rejected removed replaced requested required reset right same saved sent sequence
    sequences set short shorter shown specified still stored stream string strong supplied that the then there this
    to too type typed undefined unknown unset use used valid validated value values verified weak written wrong
    wrongly your
    """.split()  # noqa: SIM905
)
"""What follows "the password is" in a sentence about a password."""
IN_CHINESE = re.compile(
    r"(?P<name>密码|口令|密钥|秘钥|令牌|提取码|验证码|授权码|访问码|私钥|凭证|激活码)"
    r"(?P<sep>[ \t]{0,3}(?:改成|改为|设成|设为|设置为|是|为|[:=|│])?[ \t]{0,3})(?P<quote>[`\"'【「“《(\[])?"
    r"(?P<value>[A-Za-z0-9!#$%&*+./=?@^_~-][!#-&*+.0-:=?-Z^_a-z~/-]{3,2000})(?P<after>)"
)
CODE = re.compile(r"(?i)(?:[\w.]{0,100}[._])?(?:secret|passw(?:or)?d|passphrase|pwd|key|token|credentials?)")
NOTHING = re.compile(
    r"(?i)(?:true|false|yes|no|on|off|none|null|nil|str|int|bytes|bool|string|optional|any|\*+|\.+|x{3,}|[$%].*|-.*|~.*|(?:id|src|type)=.*"
    r"|<[^>]{0,60}>)[,.]?"
)
RANDOM = re.compile(r"(?=[^\d]{0,60}\d)(?=[^A-Za-z]{0,60}[A-Za-z])[\w~+/.=!@#$%^*,-]{8,4000}", re.ASCII)
