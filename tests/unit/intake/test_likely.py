"""Commands of programs that no table names: found by how they look and where they stand."""

from __future__ import annotations

import pytest

from reprokit.intake import projects
from reprokit.intake.drafting import draft


def _command(text: str) -> str:
    lines = str(draft(text).data["command"]).split("\n")
    return "\n".join(line for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "Steps:\n1. Run `wib init demo`\n2. `cd demo`\n3. Run `wib build --release`\n\nIt panics.\n",
            "wib init demo\ncd demo\nwib build --release",
        ),
        (
            (
                "To Reproduce\n- create a cluster by this\n`wib cluster create --nodes 3`\n- stop a node and look\n"
                "`wib node stop n2`\n`wib cluster slots`\n"
            ),
            "wib cluster create --nodes 3\nwib node stop n2\nwib cluster slots",
        ),
        (
            "### Steps\n% wib++ a/b.cpp --target sim\n%  ./a.out\nterminate called after throwing an instance of 'E'\n",
            "wib++ a/b.cpp --target sim\n./a.out",
        ),
        ("∞ strace wib-arm bin/true\nexecve() = 0\n", "strace wib-arm bin/true"),
        ("```\n➜  wib git:(main) ✗ wob test --all\nfatal: bad\n```\n", "wob test --all"),
        ("```\nme@box ~/s/wob (main)> wob run --fast\nfatal: bad\n```\n", "wob run --fast"),
        ("```\n+ wibc -O2 -o out main.wb\nwibc: internal error: unreachable\n```\n", "wibc -O2 -o out main.wb"),
        ("```\nExecuting: /usr/bin/wib-ld -shared x.o\nfatal: no wob\n```\n", "/usr/bin/wib-ld -shared x.o"),
        ("The arguments are\n${WIB} --config=a.conf --out=d --jobs=4\n", "${WIB} --config=a.conf --out=d --jobs=4"),
        (
            (
                "Running the command `wib install -r a.txt` produces the error:\n```shell\nResolved 20 names in 5ms\n"
                "thread 'main' panicked at src/wib/main.rs:67:18:\nResolution should be whole\n```\n"
            ),
            "wib install -r a.txt",
        ),
        (
            "I use\n# git clone https://example.org/wob.git\n# cd wob\n# X=1 make all110\n# python setup.py x\n",
            "cd wob\nmake all110\npython setup.py x",
        ),
        ("在运行完python manage.py runserver 8000之后，没有发生错误\n", "python manage.py runserver 8000"),
        ("Steps to reproduce the error:\n```\nwib build --all\n```\nIt panics.\n", "wib build --all"),
        ("启动命令为：wib-cli train --lr 0.1 --amp\n", "wib-cli train --lr 0.1 --amp"),
        ("```sh\n$ cat > a.wib <<X\nfn\nX\n$ wibc a.wib\nfatal: x\n```\n", "cat > a.wib <<X\nfn\nX\nwibc a.wib"),
        (
            "# ./bootstrap.sh\n# ./configure --with-wib\nconfigure: error: no wib\n",
            "./bootstrap.sh\n./configure --with-wib",
        ),
        ("Running `wibfmt --check src/` fails.\n", "wibfmt --check src/"),
        ("When I run wibfmt --check src/ I get:\nfatal: x\n", "wibfmt --check src/"),
        ("**Command**\nwib pack\n\n**Error**\nfatal: nothing\n", "wib pack"),
        ("First compile with `wib compile a.wb`, then run `wib exec a.out`.\n", "wib compile a.wb\nwib exec a.out"),
        ("Start it:\n\n    wib serve --port 80\n\nIt prints `PANIC`.\n", "wib serve --port 80"),
        ("```\nWIB_THREADS=4 wibsim --steps 10\n```\nSegmentation fault\n", "wibsim --steps 10"),
        ("```\ndocker exec -it n0 wib -h n1\n```\nfatal: x\n", "docker exec -it n0 wib -h n1"),
        ("I start `wob serve`.\n```\n$ wob serve --port 80\nfatal: x\n```\n", "wob serve --port 80"),
    ],
)
def test_a_command_of_any_program_is_found(text: str, command: str) -> None:
    assert _command(f"# It fails\n\n{text}") == command


WAITS = "for _ in $(seq 300); do (: < /dev/tcp/127.0.0.1/9000) 2>/dev/null && break; sleep 1; done"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            (
                "Start the server:\n```bash\nwib-serve --port 9000 --model t\n```\nThen send a request:\n```bash\n"
                "curl -s localhost:9000/v1 -d '{\"a\": 1}'\n```\nThe server prints:\n```\nValueError: bad\n```\n"
            ),
            f"wib-serve --port 9000 --model t &\n{WAITS}\ncurl -s localhost:9000/v1 -d '{{\"a\": 1}}'",
        ),
        (
            (
                "启动命令：\npython3 -m wib.api --port 9000 &> start.log &\ncurl命令：\n"
                'curl http://127.0.0.1:9000/v1 \\\n  -d \'{\n    "a": "b"\n  }\'\n结果：\n[0]\n'
            ),
            (
                f"python3 -m wib.api --port 9000 &> start.log &\n{WAITS}\n"
                'curl http://127.0.0.1:9000/v1 \\\n  -d \'{\n    "a": "b"\n  }\''
            ),
        ),
        ("```\ncurl -O https://wib.example/a\n```\n```\nwib a --x\n```\n", "curl -O https://wib.example/a\nwib a --x"),
    ],
)
def test_a_server_runs_beside_the_requests_to_it(text: str, command: str) -> None:
    assert _command(f"# It fails\n\n{text}") == command


@pytest.mark.parametrize(
    "text",
    [
        "Installed:\n```\nwib 1.2.3\nwob 2.0\n```\n",
        "make sure to document the option. I find the page about wib hard to read.\n",
        "The `wib.load` function and the `--strict` flag are not documented, see `docs/index.md`.\n",
        "```\nloading /usr/lib/wib.so --done\n2024-01-01 12:00:00 INFO started\nwarning: unused variable -x\n```\n",
        "Run your command with -v added (`wib -v <your command line>`)\n",
        "The condition `wib // 10 == 12` is never true when called with `const char*`.\n",
        "It fails when started with `n_wib` and `WIB_MAX`, see `wob_layers`.\n",
        "It ends when running multi-wib inference.\n",
        "Please use the latest version and run the tests with care.\n",
        "| field | text |\n|---|---|\n| Command | see below |\n",
        "### Command\n\nsee above\n",
        "```bash\nCmake --version 3.27.4\n```\n",
        "dask workers die\n",
        "ruff reports a false positive\n",
        "streamlit app is slow.\n",
        "paddle serving 部署失败\n",
        "Please run `wib doctor --all` and paste what it prints.\n",
        "The docs say to use `wib serve --port 80`, but I call the library.\n",
        "请运行 `wib doctor` 查看环境\n",
        "我没有运行 `python train.py`，而是直接调用接口\n",
        "npm install fails\n",
        "pip install 很慢\n",
        "When I python around this it works.\n",
    ],
)
def test_other_text_is_not_run(text: str) -> None:
    assert "TODO(reprokit)" in _command(f"# It is wrong\n\n{text}")


CPP = "#include <iostream>\n\nint main() {\n    std::cout << wib::sum(1, 2);\n    return 0;\n}\n"
RUST = (
    "fn f(wib: &Wib) {\n    let all = wib.iter();\n    for one in all {\n        one.call(); // it crashes\n    }\n}\n"
)
LUA = (
    'require "wib"\n\nlocal wob = wib.new()\n-- Make the first of all the steps that there are\nwob:init()\n'
    "for i = 1, 3 do\n    wob:step(i)\nend\n"
)
GO = 'package main\n\nimport "fmt"\n\nfunc main() {\n    x := wib.Sum(1)\n    fmt.Println(x)\n}\n'
JS = "const wib = require('wib');\n\nwib.load('a').then((one) => {\n  console.log(one);\n});\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"```\n{CPP}```\n", "repro.cpp"),
        (f"The program:\n{RUST}It ends by a segmentation fault.\n", "repro.rs"),
        (f"By this program:\n\n{LUA}\nNothing is printed.\n", "repro.lua"),
        (f"```\n{GO}```\n", "repro.go"),
        (f"```\n{JS}```\n", "repro.js"),
        ("```lua\nlocal wib = 1\n```\n", "repro.lua"),
        ("```csharp\nConsole.WriteLine(1);\n```\n", "repro.cs"),
    ],
)
def test_the_language_of_a_program_is_seen_in_its_text(text: str, name: str) -> None:
    files = draft(f"# It fails\n\n{text}").data["files"]
    assert list(files) == [name]
    body = text.split("```")[1].split("\n", 1)[1] if "```" in text else files[name]
    assert files[name].strip() == body.strip()


@pytest.mark.parametrize(
    "text",
    [
        "```\na.cc:12:3: error: no member named 'x' in 'std::wib<int>';\nstd::wib<int> a;\n    ^~~\n```\n",
        "```\n#0  0x00007f in std::wib<int>::sum (this=0x0) at a.cc:3;\n#1  wib::run(int) ();\n```\n",
        "```\n[12:00:01] wib::run() {\n    started;\n    ended;\n}\n```\n",
        "src/wib.cc\n\n90858b7\n\n        Line 10 in\n        std::vector<int> a = wib::b();\n        a = b;\n",
        "First do this;\nthen that (it is in the page);\nthen those things;\nand these (all of them);\n",
        "```\n{\n  'a': 1,\n  'b': [2],\n}\n```\n",
    ],
)
def test_what_is_printed_is_not_a_program(text: str) -> None:
    assert not draft(f"# It fails\n\n{text}").data.get("files")


SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("line", "ref"),
    [
        (f"The provider: https://github.com/o/wib/tree/{SHA}", SHA),
        (f"version: wib@{SHA}", SHA),
        (f"Tried both 2.3.0 and {SHA} of wib.", SHA),
        ("Wib with Wob v0.3.3 fcd46e2c built on Dec 28", "fcd46e2c"),
        ("wib 1.2.0 (a1b2c3d4)", "a1b2c3d4"),
        ("commit: a1b2c3d", "a1b2c3d"),
        ("wib 1.2.0 20230614", ""),
        ("Write to me@a1b2c3d.example", ""),
        (f"sha256:{SHA}{SHA[:24]}", ""),
        (f"It broke in {SHA}, since main {SHA}", ""),
        ("see https://github.com/o/wib/tree/main", ""),
    ],
)
def test_a_commit_is_read_from_a_line(line: str, ref: str) -> None:
    found = next(iter(projects.stated([line])), None)
    assert (found.ref if found else "") == ref


def test_a_command_in_the_title_is_run_where_there_is_no_other() -> None:
    assert _command("# `wib upgrade --all` panics\n\nOn Debian 12.\n") == "wib upgrade --all"
    assert _command("# 在wib2wob转换中出错\n\n运行wib2wob导出a和b。\n") == "wib2wob"
    assert "TODO" in _command("# The `--all` option of `wib.upgrade()` is not documented\n\nOn Debian 12.\n")
