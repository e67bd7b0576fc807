# ruff: noqa: E501 - a kind is a row of a table
"""Private values of many kinds, planted into ten kinds of context: what the rules of redaction are measured with.

Values are made when the tests run, in the formats that their makers publish: no scanner finds a token in this file.
There are two halves. Rules are written with the first (``half=0``); the second has another seed and other templates.
"""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM = LOWER + UPPER + DIGITS
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"

Rng = random.Random
Make = Callable[[Rng], str]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of private value.

    ``make``: a value. ``var``, ``option``, ``en``, ``zh``: how a variable, an option and a sentence in each language
    name it. ``own``: sentences that are written with this kind alone, ``{}`` for the value; with them, no other
    context is used. ``also``: contexts of which ``own`` are a part. ``url``: how it stands in an address.
    """

    name: str
    make: Make
    var: str = ""
    option: str = ""
    en: str = ""
    zh: str = ""
    url: str = ""
    own: tuple[str, ...] = ()
    mixed: bool = False
    shown: Make | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A text with a private value in it."""

    kind: str
    context: str
    language: str
    text: str
    value: str
    around: str
    """The text with something harmless in the place of the value."""


def chars(rng: Rng, size: int, alphabet: str = ALNUM) -> str:
    """A text of every class of characters that the alphabet has, as real tokens of this length are."""
    while True:
        text = "".join(rng.choices(alphabet, k=size))
        classes = [one for one in (LOWER, UPPER, DIGITS) if set(one) <= set(alphabet)]
        if size < 12 or all(set(text) & set(one) for one in classes):
            return text


def prefixed(prefix: str, size: int, alphabet: str = ALNUM, suffix: str = "") -> Make:
    return lambda rng: prefix + chars(rng, size, alphabet) + suffix


def joined(*makes: Make | str) -> Make:
    return lambda rng: "".join(make if isinstance(make, str) else make(rng) for make in makes)


def one_of(*values: str) -> Make:
    return lambda rng: rng.choice(values)


def _b64(rng: Rng, size: int) -> str:
    return base64.b64encode(rng.randbytes(size)).decode()


def _jwt(rng: Rng) -> str:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    return f"{part(chr(123) + chr(34) + 'alg' + chr(34) + ':' + chr(34) + 'HS256' + chr(34) + '}')}." + (
        part('{"sub":"' + chars(rng, 20) + '","iat":1700000000}') + "." + chars(rng, 43, URLSAFE)
    )


def _pem(kind: str) -> Make:
    def make(rng: Rng) -> str:
        body = "\n".join(re.findall(".{1,64}", _b64(rng, 400)))
        dashes = "-" * 5
        return f"{dashes}BEGIN {kind}{dashes}\n{body}\n{dashes}END {kind}{dashes}"

    return make


def _pgp(rng: Rng) -> str:
    return _pem("PGP MESSAGE")(rng).replace("\n", "\n\n", 1)


def _ssh_key(rng: Rng) -> str:
    kind, size = rng.choice([("ssh-ed25519", 51), ("ssh-rsa", 279), ("ecdsa-sha2-nistp256", 104)])
    return f"{kind} AAAA{_b64(rng, size).rstrip('=')} {_name(rng)}@{_host(rng)}"


NAMES = [
    "anna",
    "zhangwei",
    "liming",
    "kowalski",
    "jdoe",
    "wang.lei",
    "m.schmidt",
    "xiaoyu",
    "tanaka",
    "priya",
    "chenhao",
]
NAMES += [
    "lukas",
    "hyejin",
    "oyvind",
    "zhaoyun",
    "a.rossi",
    "nguyenvt",
    "u1042",
    "bjorn_k",
    "songjie",
    "yuki-t",
    "mhuang",
]
WORDS = [
    "correct-horse",
    "Sommer2024!",
    "hunter2",
    "dragon#77",
    "letmein",
    "qwerty123",
    "Passw0rd",
    "swordfish",
    "Tr0ub4dor",
]


def _name(rng: Rng) -> str:
    return rng.choice(NAMES)


def _host(rng: Rng) -> str:
    first = ["gpu", "node", "dgx", "lab", "titan", "hpc", "server", "ai", "ws", "train", "worker", "sugon", "inspur"]
    return rng.choice(first) + rng.choice(["-", "", "-a", "-cn"]) + str(rng.randint(1, 99))


def _password(rng: Rng) -> str:
    return rng.choice(
        [
            chars(rng, rng.randint(8, 16)),
            rng.choice(WORDS),
            rng.choice(WORDS) + chars(rng, 3, DIGITS),
            chars(rng, 5, LOWER) + rng.choice("!@#%*") + chars(rng, 4),
        ]
    )


def _word(rng: Rng) -> str:
    """A password as people type it, which no rule knows by its looks."""
    return rng.choice(WORDS) + rng.choice(["", chars(rng, 2, DIGITS)])


def _id_card(rng: Rng) -> str:
    day = f"{rng.randint(1950, 2005)}{rng.randint(1, 12):02d}{rng.randint(1, 28):02d}"
    body = rng.choice(["110101", "310115", "440305", "510107", "330106"]) + day + f"{rng.randint(0, 999):03d}"
    weights = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]
    return body + "10X98765432"[sum(int(digit) * by for digit, by in zip(body, weights, strict=True)) % 11]


def _phone_cn(rng: Rng) -> str:
    number = rng.choice(["138", "139", "150", "186", "177", "199", "166"]) + chars(rng, 8, DIGITS)
    cut = f"{number[:3]}{{0}}{number[3:7]}{{0}}{number[7:]}"
    return rng.choice([number, "+86 " + number, "+86-" + number, cut.format("-"), cut.format(" ")])


def _phone(rng: Rng) -> str:
    def digits(size: int) -> str:
        return str(rng.randint(2, 9)) + chars(rng, size - 1, DIGITS)

    return rng.choice(
        [
            f"+49 {digits(3)} {digits(7)}",
            f"+1 ({digits(3)}) {digits(3)}-{digits(4)}",
            f"+44 20 {digits(4)} {digits(4)}",
            f"+1-{digits(3)}-{digits(3)}-{digits(4)}",
            f"+33{digits(9)}",
            f"+91 {digits(5)} {digits(5)}",
            f"+81-{digits(2)}-{digits(4)}-{digits(4)}",
        ]
    )


def _ipv4(rng: Rng) -> str:
    def byte() -> int:
        return rng.randint(2, 250)

    return rng.choice(
        [f"192.168.{byte()}.{byte()}", f"10.{byte()}.{byte()}.{byte()}", f"172.{rng.randint(18, 31)}.{byte()}.{byte()}"]
    )


def _ipv6(rng: Rng) -> str:
    def group() -> str:
        return chars(rng, 4, HEX)

    return rng.choice(
        [f"fe80::{group()}:{group()[:2]}ff:fe{group()[:2]}:{group()}", f"fd{group()[:2]}:{group()}::{group()}"]
    )


def _mac(rng: Rng) -> str:
    pairs = [f"{rng.randrange(256):02x}" for _ in range(6)]
    return rng.choice([":".join(pairs), "-".join(pairs).upper(), ":".join(pairs).upper()])


def _uuid(rng: Rng) -> str:
    return "-".join(chars(rng, size, HEX) for size in (8, 4, 4, 4, 12))


def _serial(rng: Rng) -> str:
    return rng.choice(
        [chars(rng, 13, DIGITS), "S" + chars(rng, 14, UPPER + DIGITS), "PHLJ" + chars(rng, 10, UPPER + DIGITS)]
    )


def _internal(rng: Rng) -> str:
    company = rng.choice(["acme", "bigco", "zhixing", "nordlab"])
    first = rng.choice(["git", "wiki", "pypi", "harbor", "nexus", "gitlab", "jenkins", "minio", "registry"])
    return rng.choice(
        [
            f"{first}.{company}.corp",
            f"{first}.internal.{company}.com",
            f"{first}.{company}-inc.internal",
            f"{first}.{company}.lan",
            f"{first}.corp.{company}.com",
            f"{first}.{company}.intra",
            f"{first}.intranet.{company}.cn",
        ]
    )


def _email(rng: Rng) -> str:
    return f"{_name(rng)}{rng.choice(['', '.ml', '+gpu'])}@{rng.choice(['qq.com', 'gmail.com', 'tsinghua-x.edu.cn', '163.com', 'uni-y.de'])}"


def _userinfo(rng: Rng) -> str:
    return f"{_name(rng)}:{chars(rng, rng.randint(8, 14))}"


TOKENS = [
    Kind(name="github classic token", make=prefixed("gh" + "p_", 36), var="GITHUB_TOKEN", option="--token", en="GitHub token", zh="GitHub 令牌"),
    Kind(name="github fine-grained token", make=joined("github" + "_pat_", prefixed("11", 20), prefixed("_", 59)), var="GH_PAT", option="--pat", en="PAT", zh="访问令牌"),
    Kind(name="github app token", make=prefixed("gh" + "s_", 36), var="APP_INSTALLATION", option="--with", en="installation credential", zh="应用凭据"),
    Kind(name="gitlab token", make=prefixed("gl" + "pat-", 20, URLSAFE), var="CI_GITLAB", option="--gitlab", en="GitLab PAT", zh="GitLab 令牌"),
    Kind(name="huggingface token", make=prefixed("h" + "f_", 34, LOWER + UPPER), var="HF_HUB", option="--hub", en="Hugging Face token", zh="HF 令牌"),
    Kind(name="pypi token", make=prefixed("py" + "pi-AgEIcHlwaS5vcmc", 120, URLSAFE), var="TWINE_PASSWORD", option="--password", en="upload token", zh="上传令牌"),
    Kind(name="npm token", make=prefixed("np" + "m_", 36), var="NODE_AUTH", option="--auth", en="npm token", zh="npm 令牌"),
    Kind(name="docker hub token", make=prefixed("dckr" + "_pat_", 27, URLSAFE), var="DOCKERHUB", option="-p", en="Docker Hub token", zh="Docker Hub 令牌"),
    Kind(name="aws access key id", make=prefixed("AK" + "IA", 16, UPPER + "234567"), var="AWS_ACCESS_KEY_ID", option="--access-key", en="access key", zh="访问密钥"),
    Kind(name="aws secret key", make=prefixed("", 40, BASE64), var="AWS_SECRET_ACCESS_KEY", option="--secret-key", en="secret access key", zh="私有密钥"),
    Kind(name="aws session token", make=joined("FwoGZXIvYXdzE", lambda rng: _b64(rng, 200)), var="AWS_SESSION_TOKEN", option="--session-token", en="session token", zh="会话令牌"),
    Kind(name="gcp api key", make=prefixed("AI" + "za", 35, URLSAFE), var="GOOGLE_MAPS", option="--maps", en="Google key", zh="谷歌密钥"),
    Kind(name="azure storage key", make=joined(prefixed("", 86, BASE64), "=="), var="AZURE_STORAGE_KEY", option="--account-key", en="account key", zh="存储密钥",
         own=("DefaultEndpointsProtocol=https;AccountName=store7;AccountKey={};EndpointSuffix=core.windows.net",), mixed=True),
    Kind(name="azure sas", make=joined(prefixed("", 42, ALNUM), "%3D"), own=(
        "curl 'https://store7.blob.core.windows.net/c/b.tar?sv=2023-01-03&se=2025-01-01T00%3A00%3A00Z&sp=r&sig={}'",
        "azcopy copy \"https://store7.blob.core.windows.net/c?sp=rl&sr=c&sig={}\" .",
        "SAS_URL=https://store7.blob.core.windows.net/c?sv=2023&sig={}",
        "下载地址：https://store7.blob.core.windows.net/data/x.zip?sig={}&se=2025-09-01")),
    Kind(name="azure client secret", make=joined(prefixed("", 3), "8Q~", prefixed("", 34, URLSAFE + ".~")), var="AZURE_CLIENT_SECRET", option="--client-secret", en="client secret", zh="客户端密钥"),
    Kind(name="openai key", make=joined("sk" + "-proj-", prefixed("", 74, URLSAFE), "T3BlbkFJ", prefixed("", 74, URLSAFE)), var="OPENAI_API_KEY", option="--api-key", en="OpenAI key", zh="OpenAI 密钥"),
    Kind(name="anthropic key", make=joined("sk" + "-ant-api03-", prefixed("", 93, URLSAFE), "AA"), var="ANTHROPIC_API_KEY", option="--api-key", en="Anthropic key", zh="Anthropic 密钥"),
    Kind(name="slack bot token", make=joined("xo" + "xb-", prefixed("", 12, DIGITS), "-", prefixed("", 12, DIGITS), "-", prefixed("", 24)), var="SLACK_BOT", option="--slack", en="Slack token", zh="Slack 令牌"),
    Kind(name="slack webhook", make=joined("https://hooks.slack" + ".com/services/T", prefixed("", 8, UPPER + DIGITS), "/B", prefixed("", 10, UPPER + DIGITS), "/", prefixed("", 24)), var="NOTIFY_URL", option="--notify", en="webhook", zh="机器人地址"),
    Kind(name="discord webhook", make=joined("https://discord" + ".com/api/webhooks/", prefixed("", 18, DIGITS), "/", prefixed("", 68, URLSAFE)), var="DISCORD_HOOK", option="--hook", en="webhook", zh="通知地址"),
    Kind(name="discord bot token", make=joined("M", prefixed("", 25), ".G", prefixed("", 5), ".", prefixed("", 38, URLSAFE)), var="DISCORD_BOT", option="--bot", en="bot token", zh="机器人令牌"),
    Kind(name="telegram token", make=joined(prefixed("7", 9, DIGITS), ":A" + "A", prefixed("", 33, URLSAFE)), var="TG_BOT", option="--bot", en="bot token", zh="机器人令牌"),
    Kind(name="stripe key", make=prefixed("sk" + "_live_", 24), var="STRIPE", option="--stripe", en="Stripe key", zh="支付密钥"),
    Kind(name="twilio key", make=prefixed("S" + "K", 32, HEX), var="TWILIO", option="--sid", en="Twilio key", zh="短信密钥"),
    Kind(name="sendgrid key", make=joined("S" + "G.", prefixed("", 22, URLSAFE), ".", prefixed("", 43, URLSAFE)), var="MAIL", option="--mail", en="mail key", zh="邮件密钥"),
    Kind(name="nvidia ngc key", make=prefixed("nv" + "api-", 64, URLSAFE), var="NGC", option="--ngc", en="NGC key", zh="NGC 密钥"),
    Kind(name="alibaba access key", make=prefixed("LT" + "AI5t", 18), var="OSS_ID", option="-i", en="OSS key id", zh="阿里云账号标识"),
    Kind(name="alibaba secret", make=prefixed("", 30), var="ALIBABA_CLOUD_ACCESS_KEY_SECRET", option="--access-key-secret", en="access key secret", zh="AccessKey Secret"),
    Kind(name="tencent secret id", make=prefixed("AK" + "ID", 32), var="COS_ID", option="--id", en="COS id", zh="腾讯云账号标识"),
    Kind(name="tencent secret key", make=prefixed("", 32), var="TENCENTCLOUD_SECRET_KEY", option="--secret-key", en="secret key", zh="SecretKey"),
    Kind(name="modelscope token", make=_uuid, var="MODELSCOPE_API_TOKEN", option="--token", en="ModelScope token", zh="魔搭令牌",
         own=("modelscope login --token {}", "api.login('{}')  # from modelscope.hub.api import HubApi"), mixed=True),
    Kind(name="feishu webhook", make=joined("https://open.feishu" + ".cn/open-apis/bot/v2/hook/", _uuid), var="FEISHU", option="--notify", en="webhook", zh="飞书机器人"),
    Kind(name="feishu app", make=prefixed("cli" + "_a", 15, HEX), var="FEISHU_APP", option="--app", en="app id", zh="飞书应用"),
    Kind(name="dingtalk webhook", make=joined("https://oapi.dingtalk" + ".com/robot/send?access_token=", prefixed("", 64, HEX)), var="DING", option="--ding", en="webhook", zh="钉钉机器人"),
    Kind(name="wecom webhook", make=joined("https://qyapi.weixin.qq" + ".com/cgi-bin/webhook/send?key=", _uuid), var="WECOM", option="--wecom", en="webhook", zh="企业微信机器人"),
    Kind(name="wandb key", make=prefixed("", 40, HEX), var="WANDB_API_KEY", option="--wandb-key", en="W&B API key", zh="wandb 密钥",
         own=("wandb login {}", "$ wandb login --relogin {}", "wandb.login(key='{}')", "RUN wandb login {}", "!wandb login {}",
              "wandb: Paste an API key from your profile and hit enter: {}"), mixed=True),
    Kind(name="comet key", make=prefixed("", 25), var="COMET_API_KEY", option="--api-key", en="Comet API key", zh="Comet 密钥",
         own=("experiment = Experiment(api_key=\"{}\", project_name='x')",), mixed=True),
    Kind(name="kaggle key", make=prefixed("", 32, HEX), var="KAGGLE_KEY", option="--kaggle-key", en="Kaggle key", zh="Kaggle 密钥",
         own=("{{\"username\":\"someone\",\"key\":\"{}\"}}", "echo '{{\"username\":\"me\",\"key\":\"{}\"}}' > ~/.kaggle/kaggle.json"), mixed=True),
    Kind(name="databricks token", make=prefixed("da" + "pi", 32, HEX), var="DATABRICKS", option="--databricks", en="workspace token", zh="工作区令牌"),
    Kind(name="vault token", make=prefixed("hv" + "s.", 95, URLSAFE), var="VAULT", option="--vault", en="Vault token", zh="Vault 令牌"),
    Kind(name="jwt", make=_jwt, var="SESSION", option="--id", en="identity", zh="身份令牌"),
]  # fmt: skip
BLOCKS = [
    Kind(name="private key", make=_pem("OPENSSH " + "PRIVATE KEY"), own=("{}", "cat ~/.ssh/id_rsa\n{}\n$ ls", "key: |\n{}", "密钥如下\n{}\n谢谢")),
    Kind(name="gcp service account", make=_pem("PRIVATE " + "KEY"), shown=lambda rng: _pem("PRIVATE " + "KEY")(rng).replace("\n", "\\n"), own=(
        '{{"type": "service_account", "private_key": "{}\\n", "client_id": "1"}}', "  \"private_key\": \"{}\",", "export KEY='{}'", "日志里有 \"private_key\":\"{}\"")),
    Kind(name="ssh public key", make=_ssh_key, own=("{}", "echo '{}' >> ~/.ssh/authorized_keys", "RUN echo \"{}\" > /root/.ssh/authorized_keys", "公钥：{}", "my key is {} as usual")),
    Kind(name="pgp block", make=_pgp, own=("{}", "gpg says\n{}\nend", "加密内容\n{}\n")),
    Kind(name="age key", make=prefixed("AGE-SECRET-KEY" + "-1", 58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"), var="SOPS_AGE", option="-i", en="age key", zh="age 密钥"),
]  # fmt: skip
TYPED = [
    Kind(name="basic-auth url", make=_userinfo, own=(
        "git clone https://{}@git.example.org/team/model.git", "fatal: unable to access 'https://{}@example.org/x.git/': 403", "remote: https://{}@dev.example.net/r.git",
        "RUN git clone --depth 1 https://{}@git.example.org/a/b.git", "从 https://{}@example.org/model.bin 下载", "| source | https://{}@example.org/a |")),
    Kind(name="database url", make=_userinfo, own=(
        "DATABASE_URL=postgresql://{}@db:5432/app", "mysql+pymysql://{}@db.example.org/x", "sqlalchemy.exc.OperationalError: could not connect to postgres://{}@db:5432/x",
        "redis://{}@cache:6379/0", "MONGO_URI: mongodb+srv://{}@cluster0.example.mongodb.net/db", "数据库是 postgresql://{}@db:5432/app", "amqp://{}@mq:5672//")),
    Kind(name="netrc", make=_password, own=("machine api.wandb.ai\n  login user\n  password {}", "machine git.example.org login ci password {}", "default login anonymous password {}",
        "echo 'machine huggingface.co login me password {}' > ~/.netrc")),
    Kind(name="pypirc", make=_password, own=("[pypi]\nusername = someone\npassword = {}\n", "[testpypi]\n  username: ci\n  password: {}\n", "[distutils]\nindex-servers = x\n[x]\nusername=ci\npassword={}")),
    Kind(name="pip index credentials", make=_userinfo, own=("pip install -i https://{}@pypi.example.org/simple torch", "[global]\nindex-url = https://{}@nexus.example.org/repository/pypi/simple",
        "ENV PIP_INDEX_URL=https://{}@pypi.example.org/simple", "--extra-index-url https://{}@pypi.example.org/simple", "Looking in indexes: https://{}@pypi.example.org/simple",
        "使用内部源 https://{}@pypi.example.org/simple 安装")),
    Kind(name="cookie", make=joined("session=", prefixed("", 40), "; csrftoken=", prefixed("", 32)), own=("curl -H 'Cookie: {}' https://example.org", "Set-Cookie: {}", "> cookie: {}", "wget --header=\"Cookie: {}\" https://example.org/x",
        "curl -b '{}' https://example.org/data.zip", "curl --cookie \"{}\" https://example.org/data.zip", "请求头 Cookie: {}")),
    Kind(name="authorization header", make=prefixed("", 32), own=("curl -H 'Authorization: Bearer {}' https://api.example.org", "Authorization: token {}", '{{"Authorization": "Bearer {}"}}', "headers={{'Authorization': 'Bearer {}'}}",
        "< authorization: Basic {}", "X-Api-Key: {}", "curl -H \"X-Auth-Token: {}\" https://example.org", "PRIVATE-TOKEN: {}", "请求头是 Authorization: Bearer {}")),
    Kind(name="docker login", make=_password, own=("docker login -u someone -p {} registry.example.org", "docker login --username=x --password={} harbor.example.org", "$ docker login -p '{}' -u ci",
        "podman login -u a -p {} quay.example.org", "nerdctl login -u a --password \"{}\" docker.example.org", "先 docker login -u abc -p {} 再拉镜像", "echo {} | docker login -u x --password-stdin")),
    Kind(name="api-key option", make=prefixed("", 24), own=("python serve.py --api-key={}", "vllm serve m --api-key {}", "python run.py --model x --openai_api_key '{}' --n 3", "tool --apikey {}", "启动：python app.py --api_key={}")),
    Kind(name="password option", make=_password, own=("tool --password {} --verbose", "mysqldump -u root --password={} db", "python sync.py --user x --passwd '{}'", "7z x data.7z -p{}", "unzip -P {} data.zip",
        "huggingface-cli login --password \"{}\"", "执行 tool --password {} 失败", "PGPASSWORD={} psql -h db", "redis-cli -a {} ping")),
    Kind(name="env in Dockerfile", make=_password, own=("ENV API_SECRET={}", "ENV API_SECRET {}", "ARG DB_PASSWORD={}", "ENV A=1 SERVICE_PASSWORD={} B=2", "ENV LLM_API_KEY \"{}\"", "FROM x\nENV MY_TOKEN {}\nRUN y")),
    Kind(name="exported token", make=prefixed("", 28), own=("export X_TOKEN={}", "export MY_SECRET='{}'", "set API_TOKEN={}", "setenv HUB_TOKEN {}", "$env:HUB_TOKEN = \"{}\"", "export LLM_KEY={}", "设置 export ACCESS_TOKEN={} 之后")),
    Kind(name="password in English", make=_word, own=("the password is {}", "Password: {}", "login with user test and password {}", "pw: {}", "my passwd is {}, please be quick", "the passphrase is \"{}\"", "use the pass {} to log in",
        "credentials: guest / {}", "username guest, password {}", "The root password was {} then", "log in as demo/demo, sudo password: {}", "PIN code: {}")),
    Kind(name="password in Chinese", make=_word, own=("密码：{}", "密码是 {}", "口令是 {}", "密码:{}", "登录密码为{}", "账号 test 密码 {}", "提取码：{}", "解压密码：{}", "访问口令：{}", "root 密码改成 {} 了", "用户名 admin，密码 {}",
        "秘钥是 {}", "令牌：{}", "密码为 `{}`", "压缩包密码【{}】", "验证码 {}")),
    Kind(name="yaml secret", make=_password, own=("db:\n  user: x\n  password: {}\n", "secret_key: \"{}\"", "{{\"auth_token\": \"{}\", \"n\": 1}}", "{{'client_secret': '{}'}}", "<password>{}</password>", "spring.datasource.password={}",
        "api_key = '{}'", "| password | {} |", "access_token: {}", "minio:\n  secretKey: {}\n")),
]  # fmt: skip
PEOPLE = [
    Kind(name="e-mail", make=_email, own=("mail me at {}", "git config user.email {}", "Author: someone <{}>", "联系邮箱：{}", "{{\"email\": \"{}\"}}", "LABEL maintainer=\"{}\"", "[{}] job done", "| owner | {} |", "发邮件到{}，谢谢",
        "export EMAIL={}", "mailto:{}", "https://example.org/?to={}")),
    Kind(name="mobile phone, China", make=_phone_cn, own=("手机：{}", "我的电话是 {}", "call me: {}", "phone={}", "{{\"mobile\": \"{}\"}}", "微信同号 {}", "手机号{}收不到验证码", "| tel | {} |", "联系人 老王 {}", "WARN user {} login failed",
        "sms sent to {}", "Tel: {}")),
    Kind(name="phone, international", make=_phone, own=("call {}", "Phone: {}", "my number is {} (mobile)", "tel:{}", "| phone | {} |", "WhatsApp {}", "电话 {}", "{{\"phone\": \"{}\"}}", "INFO: sent code to {}")),
    Kind(name="Chinese ID card", make=_id_card, own=("身份证号：{}", "身份证 {}", "id_card={}", "{{\"idno\": \"{}\"}}", "| 1 | 张三 | {} |", "my ID number is {}", "INFO verify {} ok", "ValueError: bad row '{}'", "export ID_NO={}")),
    Kind(name="private IPv4", make=_ipv4, own=("ssh {}", "http://{}:8080/v1", "export MASTER_ADDR={}", "torchrun --master_addr {} train.py", "RuntimeError: connect to {}:29500 timed out", "inet {}/24 brd", "服务器地址是 {}", "| host | {} |", "[{}] NCCL INFO",
        "addr: \"{}\"", "--dist-url tcp://{}:23456", "ping {}", "RUN echo {} >> /etc/hosts")),
    Kind(name="private IPv6", make=_ipv6, own=("inet6 {}/64 scope link", "ssh {}", "connect to [{}]:29500 failed", "http://[{}]:8000/", "地址 {}", "addr: '{}'", "export ADDR={}", "| v6 | {} |")),
    Kind(name="MAC address", make=_mac, own=("link/ether {} brd ff:ff:ff:ff:ff:ff", "HWaddr {}", "mac={}", "网卡 {}", "{{\"mac\": \"{}\"}}", "physical address: {}", "| eth0 | {} |", "license bound to {} only", "docker run --mac-address {} x")),
    Kind(name="GPU UUID", make=joined("GPU-", _uuid), own=("GPU 0: NVIDIA A100 (UUID: {})", "export CUDA_VISIBLE_DEVICES={}", "| 0 | {} |", "uuid: {}", "docker run --gpus device={} x", "RuntimeError: no device {}", "显卡 {} 掉卡", "MIG {}")),
    Kind(name="serial number", make=_serial, own=("Serial Number                         : {}", "Serial Number: {}", "serial: {}", "ID_SERIAL_SHORT={}", "Board Serial Number: {}", "SN: {}", "序列号：{}", "| serial | {} |", "S/N {}", "  Serial No.: {}", "drive serial={}")),
    Kind(name="machine id", make=prefixed("", 32, HEX), own=("        Machine ID: {}", "           Boot ID: {}", "machine-id: {}", "$ cat /etc/machine-id\n{}", "machine_id={}", "机器码：{}", "{{\"machineId\": \"{}\"}}", "dbus machine id {}")),
    Kind(name="internal address", make=_internal, own=("git clone https://{}/team/model.git", "http://{}:8080/job/7", "Could not resolve host: {}", "pip install -i http://{}/simple x", "FROM {}/base/cuda:11.8", "ssh {}", "内网地址 {}", "| registry | {} |",
        "index-url = https://{}/simple", "HTTPSConnectionPool(host='{}', port=443): Max retries", "export REGISTRY={}")),
    Kind(name="WeChat", make=lambda rng: rng.choice(["wx_" + chars(rng, 8, LOWER + DIGITS), _name(rng).replace(".", "") + chars(rng, 4, DIGITS)]), own=(
        "加我微信：{}", "微信号 {}", "wechat: {}", "My WeChat ID is {}", "vx: {}", "| 微信 | {} |", "有问题加V：{}", "WeChat {} if urgent")),
    Kind(name="QQ", make=lambda rng: chars(rng, 9, DIGITS).replace("0", "3"), own=("QQ：{}", "QQ群 {}", "qq号是{}", "加 QQ {} 讨论", "QQ: {}", "交流群：QQ群号 {}", "| QQ | {} |", "qq={}")),
]  # fmt: skip
KINDS = [*TOKENS, *BLOCKS, *TYPED, *PEOPLE]

UNSEEN = [
    Kind(name="Kubernetes secret", make=lambda rng: base64.b64encode(_password(rng).encode() + rng.randbytes(6)).decode(), own=(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  db-password: {}\n", "kind: Secret\ntype: Opaque\ndata:\n  token: {}\n", "apiVersion: v1\ndata:\n  conf: {}\nkind: Secret\n",
        "$ kubectl get secret db -o yaml\napiVersion: v1\ndata:\n  value: {}\nkind: Secret", "kubectl create secret generic db --from-literal=password={}")),
    Kind(name="Datadog key", make=prefixed("", 32, HEX), own=("DD_API_KEY={} DD_SITE=datadoghq.com bash -c x", "curl -H 'DD-API-KEY: {}' https://api.datadoghq.com/api/v1/validate", "api_key: {}", "docker run -e DD_API_KEY={} datadog/agent",
        "DD_APP_KEY: {}", "-H \"DD-APPLICATION-KEY: {}\"")),
    Kind(name="Zhipu key", make=joined(prefixed("", 32, HEX), ".", prefixed("", 16)), var="ZHIPUAI_API_KEY", option="--api-key", en="GLM API key", zh="智谱密钥"),
    Kind(name="RubyGems key", make=prefixed("ruby" + "gems_", 48, HEX), var="GEM_HOST", option="--key", en="gem key", zh="发布密钥"),
    Kind(name="crates.io token", make=prefixed("ci" + "o", 32), own=("cargo login {}", "CARGO_REGISTRY_TOKEN={}", "[registry]\ntoken = \"{}\"", "cargo publish --token {}", "我用 cargo login {} 登录")),
    Kind(name="kubeadm token", make=joined(prefixed("", 6, LOWER + DIGITS), ".", prefixed("", 16, LOWER + DIGITS)), own=(
        "kubeadm join kube:6443 --token {} --discovery-token-ca-cert-hash sha256:00", "users:\n- name: x\n  user:\n    token: {}\n", "token: {}", "执行 kubeadm join --token {} 超时")),
    Kind(name="Grafana token", make=joined("gl" + "sa_", prefixed("", 32), "_", prefixed("", 8, HEX)), var="GRAFANA", option="--grafana", en="service account token", zh="服务令牌"),
    Kind(name="mysql -p", make=_password, own=("mysql -u root -p{} app", "mysqldump -uroot -p{} --all-databases > x.sql", "RUN mysql -h db -uroot -p{} < init.sql", "先 mysql -uroot -p{} 登录", "mysqladmin -u root -p{} status")),
    Kind(name="CircleCI token", make=joined("CC" + "IPAT_", prefixed("", 22), "_", prefixed("", 40, HEX)), var="CIRCLE", option="--circle", en="project token", zh="流水线令牌"),
    Kind(name="Terraform token", make=joined(prefixed("", 14), ".at" + "lasv1.", prefixed("", 67, URLSAFE)), var="TF", option="--tf", en="Terraform token", zh="云令牌"),
    Kind(name="Mailchimp key", make=joined(prefixed("", 32, HEX), "-us12"), var="MAILCHIMP", option="--mc", en="Mailchimp key", zh="邮件密钥"),
    Kind(name="Vercel token", make=prefixed("", 24), own=("vercel deploy --token {}", "VERCEL_TOKEN={}", "vercel --token={} --prod", "curl -H 'Authorization: Bearer {}' https://api.vercel.com/v9/projects", "my Vercel token is {}")),
]  # fmt: skip
"""Kinds that were drawn by lot from a list, and written after the rules were."""

# Each context in two halves: the first for the rules, the second held out.
CONTEXTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "prose": (
        ("I used my {en} {v} and it failed.", "my {en} is {v}", "我的{zh}是 {v}，麻烦看一下", "(the {en}: {v})"),
        ("Sorry, I forgot to remove {v} from the log.", "With the {en} `{v}` it works", "用的{zh}：{v}。", "{zh}为{v}"),
    ),
    "shell": (
        ("$ python train.py {option} {v} --epochs 3", "tool {option}={v}", "curl -s https://example.org/x?n=1 {option} '{v}' | head"),
        ("python -m app.serve {option} \"{v}\" &&  echo ok", "sudo env {var}={v} python x.py", "tool sync {option} {v} 2>&1 | tee log"),
    ),
    "prompt": (
        ("root@localhost:/w# export {var}={v}", "C:\\> set {var}={v}", ">>> os.environ['{var}'] = '{v}'"),
        ("(base) $ {var}={v} python x.py", "In [3]: {var} = \"{v}\"", "% echo {v}"),
    ),
    "env": (
        ("export {var}={v}", "{var}='{v}'", "{var}={v}\nPATH=/usr/bin\n"),
        ("PATH=/usr/bin\n{var}={v}\nLANG=C", "declare -x {var}=\"{v}\"", "setx {var} \"{v}\""),
    ),
    "dockerfile": (
        ("FROM debian:12\nENV {var}={v}\nRUN make", "ARG {var}={v}", "RUN tool {option} {v}"),
        ("ENV {var} {v}", "RUN {var}={v} make install", "LABEL note=\"{v}\""),
    ),
    "yaml/json": (
        ("env:\n  {var}: {v}\n", '{{"{var}": "{v}", "n": 3}}', "- name: {var}\n  value: {v}\n"),
        ("{var}: '{v}'  # 配置", '{{"x": ["{v}"]}}', "config = {{'{var}': '{v}'}}"),
    ),
    "url": (
        ("https://example.org/api?{var}={v}&n=2", "GET /v1/x?access_token={v} HTTP/1.1", "https://example.org/cb#token={v}"),
        ("https://{v}@example.org/x.git", "请求 https://example.org/v1?key={v} 返回 403", "https://example.org/r?auth={v}"),
    ),
    "log": (
        ("2024-05-01 10:00:00,123 INFO config: {var}={v}", "[debug] {en}: {v}", "E0501 10:00:00 auth.cc:31] rejected {v}"),
        ("WARNING:root:{en} {v} expired", '{{"level":"info","{var}":"{v}"}}', "[2024-05-01] 使用{zh} {v} 登录"),
    ),
    "traceback": (
        ('  File "x.py", line 3, in f\n    login("{v}")\nValueError: x', "KeyError: '{v}'", "requests.exceptions.HTTPError: 401 for {v}"),
        ("    client = Client({var}='{v}')\nTypeError: no", "RuntimeError: invalid {en} '{v}'", "  File \"/app/{v}/x.py\", line 1, in g"),
    ),
    "table": (
        ("| {var} | {v} |\n| n | 3 |", "{var}    {v}", "| name | {en} |\n|---|---|\n| a | {v} |"),
        ("| {zh} | {v} |", "{var}\t{v}\tyes", "│ {var} │ {v} │"),
    ),
}  # fmt: skip
NEEDS_NAME = frozenset(
    {"aws secret key", "azure storage key", "alibaba secret", "tencent secret key", "modelscope token", "wandb key", "comet key", "kaggle key"}
)  # fmt: skip
"""Kinds that look like anything: a template counts for them only where it says what it is."""

CHINESE = [
    ("运行下面的命令报错：", "请问怎么解决？"),
    ("环境信息如下", "麻烦大佬看看"),
    ("复现步骤：", "谢谢！"),
    ("日志：", "版本 2.6.2，其他都正常。"),
]

HIDDEN: tuple[Callable[[str], str], ...] = (
    lambda text: "".join(f"{c}\u200b" if i % 7 == 3 else c for i, c in enumerate(text)),
    lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    lambda text: "\0".join(text),
    lambda text: re.sub("[0-9_:-]", lambda found: f"%{ord(found[0]):02X}", text),
    lambda text: text[:5] + "\x1b[1m" + text[5:] + "\x1b[0m",
    lambda text: "\ufeff" + text[:9] + "\u2060" + text[9:],
)
"""Zero-width and full-width characters, UTF-16 read as something else, percent-encoding, colours."""


def _chinese(text: str) -> str:
    return "zh" if re.search("[\u4e00-\u9fff]", text) else "en"


def _context(text: str) -> str:
    """The context of a sentence that a kind has of its own."""
    tests = {
        "table": r"^\||│",
        "traceback": r"(?:Error|Exception)\b",
        "dockerfile": r"^(?:ENV|ARG|RUN|FROM|LABEL|COPY)\b",
        "env": r"^(?:export|set|setenv|\$env:)\b|^[A-Z_]{3,}=",
        "url": r"://",
        "prompt": r"^(?:\$|>>>|[^\n]{0,20}[#$] )",
        "shell": r"^(?:curl|git|docker|podman|python|pip|tool|ssh|echo|cat|wandb|ping|7z|unzip|torchrun|wget|modelscope|redis-cli|mysqldump)\b",
        "yaml/json": r"[{<\"]|^\s*[\w.-]+:",
        "log": r"INFO|WARN|DEBUG|^\[|^\d{4}-",
    }
    return next((name for name, pattern in tests.items() if re.search(pattern, text)), "prose")


def _filled(kind: Kind, template: str, value: str) -> str:
    if kind.own and "{v}" not in template:
        return template.format(value)
    return template.format(v=value, var=kind.var, option=kind.option, en=kind.en, zh=kind.zh)


def _templates(kind: Kind, half: int, rng: Rng) -> Iterator[tuple[str, str]]:
    """Templates of this half, each with its context."""
    yield from ((_context(one), one) for one in kind.own[half::2])
    if not kind.own or kind.mixed:
        for context, halves in CONTEXTS.items():
            if says := [one for one in halves[half] if kind.name not in NEEDS_NAME or _names(one)]:
                yield context, rng.choice(says)


def _names(template: str) -> bool:
    return any(part in template for part in ("{var}", "{option}", "{en} is", "{en}:", "{en} {v}", "{en} `", "{zh}"))


SEEDS = (20_001, 77_003)


def corpus(half: int, kinds: Sequence[Kind] = KINDS) -> list[Planted]:
    """All planted values of one half; every seventh of tokens and people is hidden in one of the ways of :data:`HIDDEN`."""
    rng = random.Random(SEEDS[half])
    found: list[Planted] = []
    for kind in kinds:
        for context, template in _templates(kind, half, rng):
            value = kind.make(rng)
            shown = value.replace("\n", "\\n") if kind.shown else value
            if kind.name == "feishu app" and context == "url":
                continue
            text = _filled(kind, template, shown)
            around = _filled(kind, template, "\u00b7")
            if rng.random() < 0.25:
                before, after = rng.choice(CHINESE)
                text, around = f"{before}\n{text}\n{after}", f"{before}\n{around}\n{after}"
            found.append(
                Planted(kind=kind.name, context=context, language=_chinese(text), text=text, value=shown, around=around)
            )
    return found


HOSTS = (
    (
        "{u}@{h}:~/proj$ python train.py\n{h} ran out of memory",
        "[{u}@{h} work]$ ls\nI think that {h} is broken; {u} said so",
    ),
    (
        "{u}@{h}:/data# ls\n\n在 {h} 上复现，{u} 的环境",
        "Linux {h} 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux\nhost {h} hangs",
    ),
    ("# crash on {h}\n\n(base) {u}@{h}:~$ python x.py\n", "hostname: {h}\nthe job on {h} died"),
    ("{h}:2211:2211 [0] NCCL INFO Bootstrap : Using eth0\n{h} stops", "$ hostname\n{h}\n$ echo {h}"),
    ("srun: error: {h}: task 0: Exited with exit code 1\nseen on {h}", "SLURMD_NODENAME={h}\n{h} again"),
    ("$ whoami\n{u}\nuser {u} fails", "uid=1000({u}) gid=1000({u}) groups=1000({u})\n{u} is in no group"),
    ("May  1 10:00:00 {h} kernel: NVRM: Xid 79\n{h} rebooted", "USER={u}\nHOSTNAME={h}\nran by {u} at {h}"),
    ("uname_result(system='Linux', node='{h}', release='5.4')\nso {h}", "%runfile('C:/Users/{u}/x.py')\nasked {u}"),
)
HOMES = (
    ("/home/{u}/x.py line 3; {u} wrote it", "C:\\Users\\{u}\\anaconda3\\lib\\site.py\nby {u}"),
    ('File "/mnt/nfs/home/{u}/proj/a.py", line 3\nasked {u}', "/Users/{u}/miniforge3/bin/python ({u})"),
    ("在 /home/{u}/code 下运行，{u} 的机器", "HOME=/home/{u} {u}"),
    ("COPY --chown={u}:{u} . /home/{u}/app", "C:/Users/{u}/AppData/Local/x\n{u}"),
    ("/data/home/{u}/x  owner {u}", "\\\\nas01\\home\\{u}\\x\n"),
    ("drwxr-xr-x 3 {u} {u} 4096 May  1 10:00 /home/{u}", "ls: cannot open directory '/home/{u}/.ssh': ask {u}"),
    ("/public/home/{u}/env/bin/python", "/gpfs/users/{u}/run.sh by {u}"),
    ("file:///home/{u}/a.ipynb {u}", "/share/home/{u}/.conda/envs/x/lib/python3.8; {u}"),
)


def learned(half: int) -> list[Planted]:
    """Names of hosts and users which a text tells by a prompt, ``uname`` or a home, and which are gone everywhere."""
    rng = random.Random(SEEDS[half] + 1)
    found: list[Planted] = []
    for pairs, kind in ((HOSTS, "host or user name"), (HOMES, "home folder")):
        for pair in pairs:
            template = pair[half]
            for _ in range(2):
                values = {"u": rng.choice([name for name in NAMES if "." not in name]), "h": _host(rng)}
                text = template.format(**values)
                for key, value in values.items():
                    if "{" + key + "}" in template:
                        around = template.format(**{**values, key: "\u00b7"})
                        found.append(
                            Planted(
                                kind=kind,
                                context=_context(text),
                                language=_chinese(text),
                                text=text,
                                value=value,
                                around=around,
                            )
                        )
    return found


def hidden(half: int) -> list[Planted]:
    """Values in texts that are written so that a program does not see them at once."""
    rng = random.Random(SEEDS[half] + 2)
    plain = [
        one for one in corpus(half) if "\n" not in one.value and one.context in ("prose", "env", "log", "yaml/json")
    ]
    found: list[Planted] = []
    for number, hide in enumerate(HIDDEN):
        for one in rng.sample(plain, 6):
            if number == 3 and "%" in one.text:
                continue
            text = one.around.replace("\u00b7", hide(one.value)) if number in (0, 1, 3, 4, 5) else hide(one.text)
            found.append(
                Planted(
                    kind="hidden",
                    context=one.context,
                    language=one.language,
                    text=text,
                    value=one.value,
                    around=one.around,
                )
            )
    return found


def everything(half: int) -> list[Planted]:
    """The whole half."""
    return [*corpus(half), *learned(half), *hidden(half)]


_PUBLIC = re.compile(
    r"https?://[\w.-]+/[\w./?=-]*?(?=[A-Z0-9a-f]{6})|BEGIN [A-Z ]+|END [A-Z ]+|-{4,}|ssh-\w+|ecdsa-[\w-]+|@[a-z\d.-]+\.[a-z]{2,3}$|\\n"
)
"""Parts of values that are the same in all of them."""


def leak(one: Planted, left: str) -> str:
    """What is left of a planted value in the text that was made of it; ''  for nothing."""
    plain = re.sub("<[a-z-]+>|[\u200b\u2060\ufeff\0]|\x1b\\[\\d*m", "", left)
    plain = "".join(chr(ord(c) - 0xFEE0) if "\uff01" <= c <= "\uff5e" else c for c in plain)
    plain = re.sub("%([2-7][0-9A-Fa-f])", lambda found: chr(int(found[1], 16)), plain)
    around = re.sub("%([2-7][0-9A-Fa-f])", lambda found: chr(int(found[1], 16)), one.around)
    value = re.sub("%([2-7][0-9A-Fa-f])", lambda found: chr(int(found[1], 16)), one.value)
    for part in _PUBLIC.sub("\n", value).split("\n"):
        size = min(6, len(part))
        if size < 2:
            continue
        for at in range(len(part) - size + 1):
            piece = part[at : at + size]
            if piece in plain and piece not in around:
                return piece
    return ""
