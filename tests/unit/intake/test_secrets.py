"""What is secret, and what says who and where a person is, never gets through; what reports are full of does.

Tokens are put together here, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reprokit.core import redaction
from reprokit.core.redaction import for_shell, of_this_host, scrub, secret_variable
from tests.unit.limits import within

ALNUM = string.ascii_letters + string.digits


def letters(size: int, alphabet: str = ALNUM) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


TOKENS = {
    "github-token": letters(36).map("ghp_".__add__) | letters(60, ALNUM + "_").map("github_pat_".__add__),
    "gitlab-token": letters(20, ALNUM + "_-").map("glpat-".__add__),
    "huggingface-token": letters(34, string.ascii_letters).map("hf_".__add__),
    "aws-access-key": letters(16, string.ascii_uppercase + "234567").map("AKIA".__add__),
    "google-api-key": letters(35, ALNUM + "_-").map(("AI" + "za").__add__),
    "slack-token": letters(40, ALNUM + "-").map(("xo" + "xb-").__add__),
    "openai-key": letters(48).map("sk-".__add__) | letters(80, ALNUM + "_-").map("sk-proj-".__add__),
    "anthropic-key": letters(80, ALNUM + "_-").map("sk-ant-api03-".__add__),
    "stripe-key": letters(24).map("sk_live_".__add__),
    "npm-token": letters(36).map("npm_".__add__),
    "pypi-token": letters(120, ALNUM + "_-").map("pypi-AgEI".__add__),
    "docker-token": letters(27, ALNUM + "_-").map("dckr_pat_".__add__),
    "jwt": st.tuples(letters(20), letters(60), letters(43)).map(lambda part: "eyJ{}.eyJ{}.{}".format(*part)),
    "private-key": letters(400, ALNUM + "+/\n").map(
        lambda body: f"-----BEGIN OPENSSH PRIVATE {'KEY'}-----\n{body}\n-----END OPENSSH PRIVATE {'KEY'}-----"
    ),
}
PASSWORDS = st.text(ALNUM + "!#%^*+./@_-", min_size=6, max_size=30).filter(
    lambda text: text[0].isalnum() and any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
)
SAID = [
    "export {}_TOKEN={}",
    "MY_{}_PASSWORD: '{}'",
    '{{"{}_api_key": "{}"}}',
    "tool --{}-password {} --verbose",
    "https://example.org/x?{}_access_token={}",
    '{}.client_secret = "{}"',
    "AWS_{}_SECRET_ACCESS_KEY={}",
]


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_never_survives(kind: str) -> None:
    @given(TOKENS[kind], st.text(), st.text(), st.sampled_from([" ", "\n", '"', "'", "=", "(", ","]))
    def check(token: str, before: str, after: str, edge: str) -> None:
        found = scrub(before + edge + token + edge + after)
        assert token not in found.text
        assert not any(token in str(one) for one in found.omitted)
        assert found.omitted

    check()


@given(PASSWORDS, st.sampled_from(SAID), letters(4, string.ascii_lowercase), st.text(), st.text())
def test_the_value_of_a_secret_name_never_survives(value: str, said: str, name: str, before: str, after: str) -> None:
    found = scrub(f"{before}\n{said.format(name, value)}\n{after}")
    if value not in before + after + name:
        assert value not in found.text


@given(st.text(ALNUM + "!%^*+.@_-", min_size=1), st.text(ALNUM + "!%^*+.@_-", min_size=1), st.text())
def test_credentials_in_an_address_never_survive(user: str, password: str, around: str) -> None:
    text = f"{around} https://x{user}:{password}@example.org/tree.git {around}"
    assert "://<credentials>@example.org/tree.git" in scrub(text).text


@given(st.text(min_size=6).filter(lambda text: text.strip() == text and text[0].isalnum() and text[-1].isalnum()))
def test_a_known_value_never_survives(value: str) -> None:
    assert value not in scrub(f"a {value} b", known=[value]).text or value in "<secret> a b"


EDGES = ["/home/anna/x", "anna@box:~$ ", "password=", "Authorization: ", "Bearer ", "C:\\Users\\Anna B\\", "<secret>"]
EDGES += [*"@\n \"'=<>~", "a@b.org", "gpu-1.local", "/t/ab-", "git@", "://"]
PIECES = st.lists(
    st.one_of(
        *TOKENS.values(),
        PASSWORDS,
        st.text(max_size=5),
        st.sampled_from(SAID),
        st.sampled_from(EDGES),
    ),
    max_size=12,
).map("".join)


@example("AKIA2222222222222222" * 5 + "ghp_" + 36 * "0")
@given(PIECES)
def test_scrubbing_again_changes_nothing(text: str) -> None:
    once = scrub(text).text
    assert scrub(once).text == once


REPEATED = ["token", "password=", "secret='", "/home", "/a.b/home/", "://", "a@", "a1.", "a-", " ", "eyJabcdefgh.", "-"]
REPEATED += ["-----BEGIN " + "PRIVATE KEY-----", "authorization: ", "cookie:", "C:\\Users\\a b", "a@b: \n", "sk-proj-"]


@pytest.mark.system
def test_a_long_line_of_names_without_secrets_takes_linear_time() -> None:
    """Each name has the rest of the line for its value, of which 4000 characters are looked at."""
    with within(seconds=10):
        scrub("https://a/b?key=" * 16_000)


SURVIVES = """\
torch==2.1.0+cu121 numpy 1.26.4 driver 535.104.05, cuDNN 8.9.7.29, sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
commit 3f1c2d4e5f60718293a4b5c6d7e8f90123456789
https://docs.python.org/3/library/os.html and https://example.org/home/index.html
git@github.com:PaddlePaddle/PaddleSeg.git and ssh://git@git.example.org/x.git
  File "/home/repro/train.py", line 3, in <module>
  File "/workspace/app/train.py", line 3, in <module>
  File "/usr/lib/python3.11/threading.py", line 3, in __init__: threading.local() torch._C.local
/root/.cache/pip ~/.cache /home /usr/local/cuda-12.1/bin/nvcc
tokenizer = AutoTokenizer.from_pretrained("bert-base")  max_tokens=4096  pad_token="<pad>"  eos_token_id: 2
KeyError: 'token'
token = tokens[i0]  num_tokens = 12  password = os.getenv("PW")  api_key=api_key  use_auth_token=True
PWD=/workspace TOKENIZERS_PARALLELISM=false password: str = None
The password is wrong, the token is 12 characters. lodash@4.17.21 torch@v2.1 image@sha256:abcd
key=value sort_key=3 for key in d: "KEY": 1
7c3f2a1b-1234-5678-9abc-def012345678 pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=0,1
"""


@pytest.mark.parametrize("line", SURVIVES.splitlines())
def test_ordinary_text_of_reports_survives(line: str) -> None:
    assert scrub(line).text == line
    assert not scrub(line).omitted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("anna@login7:~/proj$ python train.py", "<user>@<host>:~/proj$ python train.py"),
        ("(base) [anna@gpu-3 work]$ ls", "(base) [<user>@<host> work]$ ls"),
        ("root@9f3c2a1b77aa:/workspace# ls", "root@<host>:/workspace# ls"),
        ('File "/home/anna.b/x/train.py"', 'File "~/x/train.py"'),
        ("cc -I/home/anna/include /nfs/home/anna/y file:///Users/anna/x", "cc -I~/include ~/y file://~/x"),
        ("C:\\Users\\Anna Berg\\x.py C:\\\\Users\\\\anna\\\\x", "~\\x.py ~\\\\x"),
        ("PATH=/usr/bin:/home/anna/bin", "PATH=/usr/bin:~/bin"),
        ("write to anna.b+x@corp.example.com", "write to <email>"),
        ("GPU 0: A100 (UUID: GPU-7c3f2a1b-1234-5678-9abc-def012345678)", "GPU 0: A100 (UUID: <gpu-uuid>)"),
        ("node-3.cluster.local nas.lan ip-10-0-0-1.ec2.internal", "<host> <host> <host>"),
        ('-H "Authorization: Basic YTpi"', '-H "Authorization: Basic <authorization>"'),
        ("PASSWORD=hunter2 password: letmein", "PASSWORD=<secret> password: <secret>"),
        ('{\\"password\\": \\"abc\\"}', '{\\"password\\": \\"<secret>\\"}'),
    ],
)
def test_placeholders_can_be_read_again(text: str, expected: str) -> None:
    assert scrub(text).text == expected


def test_omitted_secrets_are_listed_with_their_places() -> None:
    found = scrub("a\nDB_PASSWORD=hunter2\nanna@gpu-3:~$ x\n", where="log")
    assert [str(one) for one in found.omitted] == ["secret (log, line 2, after DB_PASSWORD)", "host (log, line 3)"]


def test_this_host_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction.socket, "gethostname", lambda: "lab-42.example.org")
    monkeypatch.setattr(redaction.getpass, "getuser", lambda: "anna.b")
    monkeypatch.setenv("HOME", "/srv/people/annab")
    known = of_this_host({"WANDB_API_KEY": "0123456789abcdef", "TOKENIZERS_PARALLELISM": "false", "MY_TOKEN": "1"})
    text = "lab-42: anna.b ran /srv/people/annab/x with 0123456789abcdef on lab-42.example.org, ubuntu annabelle"
    assert scrub(text, known=known).text == "<host>: <user> ran ~/x with <secret> on <host>, ubuntu annabelle"


def test_a_host_or_user_named_like_a_word_is_not_removed_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction.socket, "gethostname", lambda: "dev")
    monkeypatch.setattr(redaction.getpass, "getuser", lambda: "train")
    known = of_this_host({})
    assert scrub("python train.py > /dev/null", known=known).text == "python train.py > /dev/null"
    assert scrub("ssh train@dev, http://dev:80/", known=known).text == "ssh <user>@<host>, http://<host>:80/"
    assert scrub("dev", known=known).text == "<host>"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "db_password", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "GIT_CREDENTIALS"]
)
def test_secret_names(name: str) -> None:
    assert secret_variable(name, "")


SPEAKING = ["SECRET_KEY_BASE", "GITHUB_PAT", "HF_TOKEN_READ", "MY_CREDS", "JWT", "COOKIE", "DB_PASS_1", "API_KEY_PROD"]


@pytest.mark.parametrize("name", SPEAKING)
def test_names_about_secrets_count_by_their_values(name: str) -> None:
    assert secret_variable(name, "4f3c2a1b9d8e")
    assert of_this_host({name: "4f3c2a1b9d8e"})["4f3c2a1b9d8e"] == "<secret>"
    assert not secret_variable(name, "4096")
    assert not secret_variable(name, "true")


@pytest.mark.parametrize("name", ["PWD", "TOKENIZERS_PARALLELISM", "KEYMAP", "PATH", "PASSES", "CUDA_HOME", "DISPATCH"])
def test_names_that_are_not_secret(name: str) -> None:
    assert not secret_variable(name, "4f3c2a1b9d8e")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlF", "client-key-data: <pem>"),
        (
            '{"auths": {"r.example": {"auth": "YWxpY2U6aHVudGVyMg=="}}}',
            '{"auths": {"r.example": {"auth": "<secret>"}}}',
        ),
        ("machine m.example login kim password swordfish", "machine m.example login kim password <secret>"),
        ("curl -fsS -u kim:swordfish https://m.example/", "curl -fsS -u kim:<secret> https://m.example/"),
        ("sshpass -p swordfish ssh kim@box nvidia-smi", "sshpass -p <secret> ssh <user>@<host> nvidia-smi"),
        ("scp -P 2222 kim@box:/data/x .", "scp -P 2222 <user>@<host>:/data/x ."),
        ("HTTPS_PROXY=kim:swordfish@proxy.example:3128", "HTTPS_PROXY=<credentials>@proxy.example:3128"),
        ("https://a.example/b?se=2024&sig=q%2Bx8f0Zk3kW0%3D", "https://a.example/b?se=2024&sig=<secret>"),
        ("Server=db;Uid=sa;Pwd=swordfish22;", "Server=db;Uid=sa;Pwd=<secret>;"),
        ("SECRET_KEY_BASE=4f3c2a1b9d8e7f60", "SECRET_KEY_BASE=<secret>"),
        ("python a.py --password \\\n    swordfish22 --lr 1", "python a.py --password \\\n    <secret> --lr 1"),
        ("docker login \\\n  -u kim \\\n  -p \\\n swordfish", "docker login \\\n  -u kim \\\n  -p \\\n <secret>"),
        ("curl \\\r\n  -u \\\r\n kim:swordfish", "curl \\\r\n  -u \\\r\n kim:<secret>"),
        ("export API_KEY=\\\nabcd1234efgh", "export API_KEY=\\\n<secret>"),
    ],
)
def test_secrets_in_commands_and_settings(text: str, left: str) -> None:
    assert scrub(text).text == left
    assert scrub(left).text == left


@pytest.mark.parametrize(
    "text",
    [
        "docker run --user 1000:1000 -u kim:users debian:12@sha256:0123456789abcdef",
        "ssh -T git@github.com",
        "PWD=/srv/job-12/x pwd: /data/run-01",
        "curl -sSL https://example.com/data.tar | tar -x",
        "--auth basic MAX_TOKEN_LENGTH=4096",
        "mysql -u root -p",
        "docker login -p \\\n  --help",
        "python a.py --token \\\n  --lr 1",
        "npm:left-pad@1.3.0 python:3.11@sha256:00",
    ],
)
def test_text_that_only_looks_secret_is_kept(text: str) -> None:
    assert scrub(text).text == text


def test_a_placeholder_for_a_shell_is_not_a_redirection() -> None:
    left = scrub("curl -H 'Authorization: Bearer abcdef0123456789' --password hunter2 <in >out").text
    assert (
        for_shell(left) == "curl -H 'Authorization: Bearer REDACTED_AUTHORIZATION' --password REDACTED_SECRET <in >out"
    )
    for text in (left, "git clone https://a:b1@e.example/x", "curl -u kim:swordfish https://e.example"):
        safe = for_shell(scrub(text).text)
        assert "REDACTED_" in safe
        assert scrub(safe).text == safe
        assert not scrub(safe).omitted
    assert for_shell("x = '<secret>'", "a.py") == "x = '<secret>'"
    assert (
        for_shell("#!/usr/bin/env bash\ncurl <github-token>", "a") == "#!/usr/bin/env bash\ncurl REDACTED_GITHUB_TOKEN"
    )


def test_what_the_users_netrc_holds_is_known_of_this_host(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine a login build-bot7 password Pa55/word\nmachine b login git password x\n")
    known = of_this_host({"HOME": str(tmp_path)})
    text = "build-bot7 and git pushed with Pa55/word, or Pa55%2Fword"
    assert scrub(text, known=known).text == "<user> and git pushed with <secret>, or <secret>"
    (tmp_path / ".netrc").write_text("machine")
    assert "<secret>" not in of_this_host({"HOME": str(tmp_path)}).values()


def test_a_long_secret_is_left_out_of_longer_words_too() -> None:
    known = redaction.literals(["s3cretword", "word"])
    assert scrub("xs3cretwordx swords word", known=known).text == "x<secret>x swords <secret>"


def test_a_builds_log_keeps_who_and_where() -> None:
    text = "ann@example.org in /home/ann said hf_" + "a" * 34
    assert scrub(text, people=False).text == "ann@example.org in /home/ann said <huggingface-token>"


def test_a_user_at_a_known_host_is_left_out() -> None:
    assert (
        scrub("as ann@dune-7, root@dune-7", known=redaction.hosts(["dune-7"])).text == "as <user>@<host>, root@<host>"
    )
