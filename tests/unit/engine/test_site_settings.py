"""reprokit's own configuration: where it is read from, what wins, and what is refused."""

from __future__ import annotations

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.scripts import settings_table
from reprokit.core.errors import UsageError
from reprokit.engine.site import Settings, config, providers, settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(tmp_path: Path, text: str, **environ: str) -> Settings:
    """The settings of a file of that text alone, and those variables."""
    named = write(tmp_path / "own.toml", text)
    return settings({"REPROKIT_CONFIG": str(named), **environ}, tmp_path)


def test_without_files_everything_has_a_default(tmp_path: Path) -> None:
    found = settings({"HOME": str(tmp_path)}, tmp_path)
    assert found == Settings()
    assert found.origins == {}


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_every_key_is_in_the_docs(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = settings_table.PAGES[language].read_text(encoding="utf-8")
    assert page == settings_table.with_table(page, language), "run `make docs-generated`"
    monkeypatch.setattr(config, "KEYS", {**config.KEYS, "added": config.KEYS["proxy"]})
    with pytest.raises(settings_table.Undescribed, match="added"):
        settings_table.with_table(page, language)


def test_a_misspelt_variable_is_reported_with_the_nearest_name() -> None:
    environ = {"REPROKIT_ENGIN": "venv", "REPROKIT_JOBS": "2", "REPROKIT_CONFIG": "x", "REPROKIT_TEST_LARGE": "1"}
    assert config.unknown_variables(environ) == [
        ("REPROKIT_ENGIN", "the variable REPROKIT_ENGIN is not known; did you mean 'REPROKIT_ENGINE'?")
    ]


def test_what_is_nearer_wins_and_folders_are_merged(tmp_path: Path) -> None:
    user = write(
        tmp_path / "config/reprokit/reprokit.toml",
        'base_images = "registry"\nregistry = "mirror.example/hub"\nproxy = "http://p:1"\n'
        'jobs = 3\n[datasets]\na = "~/a"\nb = "b"\n',
    )
    project = write(
        tmp_path / "project/reprokit.toml",
        'jobs = 4\nbase_images = "bootstrap"\ndatasets = {b = "data/b", c = "/c"}\n',
    )
    write(tmp_path / "reprokit.toml", 'registry = "of a folder further up"\n')
    start = tmp_path / "project/deep/down"
    start.mkdir(parents=True)
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "REPROKIT_JOBS": "5"}
    assert config.trust_project(environ, start) == project
    found = settings({**environ, "REPROKIT_DATASETS": "d=here, e=/e"}, start)
    assert found.base_images == "bootstrap"
    assert found.registry == "mirror.example/hub"
    assert found.proxy == "http://p:1"
    assert found.jobs == 5
    assert found.datasets == {
        "a": Path("~/a").expanduser(),
        "b": tmp_path / "project/data/b",
        "c": Path("/c"),
        "d": start / "here",
        "e": Path("/e"),
    }
    assert found.origins == {
        "base_images": f"{project}:2",
        "registry": f"{user}:2",
        "proxy": f"{user}:3",
        "jobs": "REPROKIT_JOBS",
        "datasets.a": f"{user}:6",
        "datasets.b": f"{project}:3",
        "datasets.c": f"{project}:3",
        "datasets.d": "REPROKIT_DATASETS",
        "datasets.e": "REPROKIT_DATASETS",
    }


HARMLESS = {"base_images", "confirm", "jobs", "python_providers", "gcc_providers"}
"""What a project's file may set unread: a further key here has to harm no one, whatever its value."""
VALUES = {"jobs": "3", "gpus": '"none"', "python_providers": '["uv"]', "gcc_providers": '["conda"]'}
VALUES |= dict.fromkeys(("datasets", "sources", "host_packages"), '{a = "/root/.ssh"}')


@pytest.mark.parametrize("key", config.KEYS)
def test_what_comes_with_a_checkout_sets_only_what_harms_no_one_until_it_is_trusted(key: str, tmp_path: Path) -> None:
    clone, environ = tmp_path / "clone", {"HOME": str(tmp_path / "home")}
    (clone / "deep").mkdir(parents=True)
    file = write(clone / "reprokit.toml", f"{key} = {VALUES.get(key, 'x')}\n".replace("= x", '= "auto"'))
    text = file.read_text()
    said: list[str] = []
    for step in ("found", "trusted", "changed", "moved"):
        if step == "trusted":
            assert config.trust_project(environ, clone / "deep") == file
        if step == "changed":
            write(file, f"{text}# and more\n")
        if step == "moved":
            write(file, text)
            clone = clone.rename(tmp_path / "elsewhere")
        try:
            settings(environ, clone / "deep")
            said.append("")
        except UsageError as error:  # one value serves as a path, an address and a size: some are not understood
            said.append(str(error) if "config trust" in str(error) else "")
    assert [bool(one) for one in said] == ([False] * 4 if key in HARMLESS else [True, False, True, True])
    if said[0]:
        assert f"reprokit.toml:1: {key}: " in said[0]
        assert f"REPROKIT_CONFIG={file}" in said[0]
    assert tuple(one for one in config.KEYS if one in HARMLESS) == config.HARMLESS
    page = settings_table.PAGES["en"].read_text(encoding="utf-8").partition("it may set ")[2].partition(";")[0]
    assert {name for name in config.KEYS if f"`{name}`" in page} == HARMLESS


@pytest.mark.parametrize("size", [5, 1 << 40])
def test_a_file_that_a_trusted_text_names_is_that_file_however_large(size: int, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    write(tmp_path / "reprokit.toml", 'datasets = {a = "data"}\n')
    for name in ("data", "other"):
        with (tmp_path / name).open("wb") as stream:
            stream.write(name.encode())
            stream.truncate(size)
    config.trust_project(environ, tmp_path)
    assert settings(environ, tmp_path).datasets == {"a": tmp_path / "data"}
    before = (tmp_path / "data").stat()
    shutil.copystat(tmp_path / "data", tmp_path / "other")
    (tmp_path / "other").replace(tmp_path / "data")
    assert (tmp_path / "data").stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(UsageError, match="config trust"):
        settings(environ, tmp_path)


def test_the_users_own_file_and_variables_need_no_trust(tmp_path: Path) -> None:
    write(tmp_path / ".config/reprokit/reprokit.toml", 'engine = "venv"\n[datasets]\na = "/a"\n')
    found = settings({"HOME": str(tmp_path), "REPROKIT_PROXY": "http://p:1"}, tmp_path / ".config/reprokit")
    assert (found.engine, found.datasets, found.proxy) == ("venv", {"a": Path("/a")}, "http://p:1")
    with pytest.raises(UsageError, match=r"no reprokit\.toml in"):
        config.trust_project({"HOME": str(tmp_path)}, tmp_path)


def test_a_named_file_stands_alone_but_for_variables(tmp_path: Path) -> None:
    write(tmp_path / "reprokit.toml", 'registry = "no"\njobs = 7\n')
    write(tmp_path / "ca.pem", "")
    found = read(tmp_path, 'ca_bundle = "ca.pem"\n', REPROKIT_JOBS="2", REPROKIT_PROXY="")
    assert (found.registry, found.ca_bundle, found.jobs, found.proxy) == ("", tmp_path / "ca.pem", 2, "")
    with pytest.raises(UsageError, match=r"REPROKIT_CONFIG names .*absent"):
        settings({"REPROKIT_CONFIG": str(tmp_path / "absent")}, tmp_path)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('max_memory = "16g"\nmax_cpus = 2.5\nmax_timeout = "1h"', {"max_memory": 2**34, "max_cpus": 2.5}),
        ('max_timeout = 90\nmax_run_time = "2m"', {"max_timeout": 90.0, "max_run_time": 120.0}),
        ('max_pids = 9\nmax_disk = "1g"', {"max_pids": 9, "max_disk": 2**30}),
        ('max_memory = ""\nstore = ""', {"max_memory": None, "store": None}),
        ('gpus = [1, "GPU-8f1c"]', {"gpus": ("1", "GPU-8f1c")}),
        ('gpus = "none"', {"gpus": ("none",)}),
        ('gpus = "all"', {"gpus": ()}),
        ('python_providers = ["uv", "distribution"]', {"python_providers": ("uv", "distribution")}),
        ('gcc_providers = "conda"', {"gcc_providers": ("conda",)}),
        (
            'pip_extra_index_urls = "https://a/simple, https://b"',
            {"pip_extra_index_urls": ("https://a/simple", "https://b")},
        ),
        ('apt_snapshot = "http://s/debian/{date}/"', {"apt_snapshot": "http://s/debian/{date}/"}),
        ('"registry" = "quoted"', {"registry": "quoted"}),
    ],
)
def test_values_are_read_in_their_units(tmp_path: Path, text: str, wanted: dict[str, Any]) -> None:
    found = read(tmp_path, text)
    assert {name: getattr(found, name) for name in wanted} == wanted


def test_paths_start_at_their_file(tmp_path: Path) -> None:
    text = 'store = "runs"\npip_index_url = "wheels"\nuv_python_downloads = "list.json"\n'
    found = read(tmp_path, text, REPROKIT_GPU_LEASES="~/leases")
    assert found.store == tmp_path / "runs"
    assert found.pip_index_url == (tmp_path / "wheels").as_uri()
    assert found.uv_python_downloads == str(tmp_path / "list.json")
    assert found.gpu_leases == Path("~/leases").expanduser()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('proxy = "http://p"\nbase_image = "auto"\n', r"own\.toml:2: unknown key 'base_image' \(did you mean 'base_im"),
        ("whatever = 1\n", r"own\.toml:1: unknown key 'whatever' \(known keys: engine, base_images"),
        ("\n[proxi]\na = 1\n", r"own\.toml:2: unknown key 'proxi' \(did you mean 'proxy'"),
        ('base_images = "docker"\n', "expected one of auto, registry, bootstrap; found 'docker'"),
        ('engine = "dokcer"\n', "did you mean 'docker'"),
        ('datasets = ["a"]\n', r"own\.toml:1: datasets: expected a table from names to folders"),
        ('[datasets]\na = {b = "c"}\n', "expected a table from names to folders"),
        ('registry = ["a"]\n', "registry: expected a text in quotes; found"),
        ("registry = true\n", "expected a text in quotes"),
        ('proxy = "host:3128"\n', "expected a URL such as"),
        ('ca_bundle = "absent.pem"\n', "expected a file that exists; there is no /"),
        ('max_memory = "lots"\n', "expected a size such as 64m"),
        ("jobs = 0\n", "expected a whole number, at least 1"),
        ('gpus = "first"\n', 'expected "all", "none", or a list'),
        ('python_providers = ["pyenv"]\n', "each one of distribution, image, uv, conda"),
        ("gcc_providers = []\n", "at least one of distribution, image, conda"),
        ('apt_snapshot = "http://s/"\n', "with {date} where the date belongs"),
        (
            '[datasets]\na = "/a"\nstore = "runs"\n',
            r"own\.toml:3: store is a key of its own: put it above \[datasets\]",
        ),
        (
            '[datasets]\na = "/a"\njobs = 3\n',
            r"own\.toml:3: jobs is a key of its own: put it above \[datasets\]",
        ),
        ("store = 3\n", "store: expected a path in quotes; found 3"),
        ("jobs = true\n", "jobs: expected a whole number such as 3; found True"),
        ("jobs = 1\nregistry = unquoted\n", r"own\.toml:2:\d+: is not TOML"),
        ("registry: no\n", r"own\.toml:1:\d+: is not TOML"),
    ],
)
def test_what_cannot_be_understood_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path, text)


def test_a_variable_that_cannot_be_understood_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^REPROKIT_JOBS: jobs: expected a whole number such as 3; found 'many'$"):
        read(tmp_path, "", REPROKIT_JOBS="many")
    with pytest.raises(UsageError, match=r"^REPROKIT_SOURCES: sources: expected NAME=DIR,NAME=DIR; found '/src'$"):
        read(tmp_path, "", REPROKIT_SOURCES="/src")


def test_a_refused_value_keeps_its_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, 'apt_snapshot = "http://me:s3cr3t@host/"\n')
    assert "s3cr3t" not in str(caught.value)
    assert "http://me:****@host/" in str(caught.value)


def test_a_password_without_a_scheme_is_not_shown_either(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found 'me:\*\*\*\*@host:3128'"):
        read(tmp_path, 'proxy = "me:s3cr3t@host:3128"\n')


def test_a_user_without_home_has_no_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    assert settings({}, tmp_path) == Settings()
    with pytest.raises(UsageError, match="REPROKIT_STORE: store: expected a path that starts with / where no home"):
        settings({"REPROKIT_STORE": "~/runs"}, tmp_path)


@given(st.lists(st.sampled_from([*config.KEYS, "[datasets]", "# jobs = 1", ""]), min_size=1, max_size=12, unique=True))
def test_a_key_is_found_on_its_line(lines: list[str]) -> None:
    text = "".join(f"{line} = 1\n" if line in config.KEYS else f"{line}\n" for line in lines)
    for number, line in enumerate(lines, 1):
        if line in config.KEYS and line != "datasets":
            assert config.line_of(text, line) == number


def test_servers_that_a_listing_of_interpreters_names_are_the_sites(tmp_path: Path) -> None:
    listing = tmp_path / "downloads.json"
    rows = [f"http://127.0.0.1:8000/{name}.tar.gz" for name in ("a", "b")] + ["https://mirror.example/c.tar.gz", "no"]
    listing.write_text(json.dumps({str(number): {"url": row} for number, row in enumerate(rows)}))
    found = providers.addresses(Settings(uv_python_downloads=str(listing), conda_channel="https://conda.example/x"))
    assert found == ["https://conda.example/x", "http://127.0.0.1:8000", "https://mirror.example"]


def test_whether_downloads_answer_is_asked_of_the_place_that_the_site_names() -> None:
    class Forbids(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(403)  # a listing: its files may be there

    with ThreadingHTTPServer(("127.0.0.1", 0), Forbids) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/uv"
        assert providers.silent("uv", Settings(uv_python_mirror=place), {}) == ""
        server.shutdown()
    gone = f"http://127.0.0.1:{server.server_port}/conda"
    assert "refused" in providers.silent("conda", Settings(conda_channel=gone), {})
    assert providers.silent("uv", Settings(uv_python_mirror="file:///nowhere"), {}) == ""
