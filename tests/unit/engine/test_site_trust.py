"""Certificate authorities, apt and proxy settings of the host."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reprokit.core.errors import UsageError
from reprokit.engine.site import Settings, authorities, current, network


def certificate(word: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{word}\n-----END CERTIFICATE-----\n"


def test_comments_and_duplicates_are_left_out(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(f"# Issuer: A\n{certificate('one')}\n# B\n{certificate('two')}{certificate('one')}")
    assert authorities.read_bundle(bundle).decode() == certificate("one") + certificate("two")


def test_a_folder_of_certificates(tmp_path: Path) -> None:
    (tmp_path / "b.pem").write_text(certificate("b"))
    (tmp_path / "a.pem").write_text(certificate("a"))
    assert authorities.read_bundle(tmp_path).decode() == certificate("a") + certificate("b")


def test_a_client_certificate_and_its_key_stay_on_this_host(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nk\n-----END PRIVATE KEY-----\n"
    (tmp_path / "client.pem").write_text(certificate("client") + key)
    (tmp_path / "ca.pem").write_text(certificate("ca") + key)
    environ = {
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_CERT": f"{tmp_path}/ca.pem",
        "PIP_CLIENT_CERT": f"{tmp_path}/client.pem",
    }
    made = current(environ, Settings())
    assert made.access.client_cert == tmp_path / "client.pem"
    with made.serving() as served:
        assert served.secrets["ca_bundle"].decode() == certificate("ca")
        assert b"cert = /run/secrets/ca_bundle" in served.secrets["pip_conf"]
        assert b"client" not in served.secrets["pip_conf"]


def test_a_bundle_larger_than_a_secret_is_refused_with_advice(tmp_path: Path) -> None:
    noise = random.Random(1)
    text = "".join(certificate(noise.randbytes(900).hex()) for _ in range(300))
    (tmp_path / "ca.pem").write_text(text)
    with pytest.raises(UsageError, match="ca_bundle"):
        authorities.read_bundle(tmp_path / "ca.pem")


def test_which_bundle_is_in_force(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("pip", "requests", "ssl", "own")}
    for path in files.values():
        path.write_text(certificate(path.name))
    environ = {"REQUESTS_CA_BUNDLE": str(files["requests"]), "SSL_CERT_FILE": str(files["ssl"])}
    anchors = (tmp_path / "anchors",)
    assert authorities.find_bundle(str(files["pip"]), environ, files["own"], anchors)[0] == files["own"]
    assert authorities.find_bundle(str(files["pip"]), environ, None, anchors)[0] == files["pip"]
    assert authorities.find_bundle("", environ, None, anchors)[0] == files["requests"]
    assert (
        authorities.find_bundle(str(tmp_path / "absent"), {"SSL_CERT_FILE": str(files["ssl"])}, None, anchors)[0]
        == files["ssl"]
    )
    assert authorities.find_bundle("", {}, None, anchors)[0] is None
    anchors[0].mkdir()
    (anchors[0] / "site.crt").write_text(certificate("site"))
    assert authorities.find_bundle("", {}, None, anchors)[0] == authorities.system_bundle()


def test_apt_proxies() -> None:
    dump = (
        'Acquire::cdrom "";\nAcquire::http::Proxy "http://cache:3142";\nAcquire::http::Proxy::deb.example "DIRECT";\n'
        'Acquire::https::Proxy "";\nAcquire::http::Proxy-Auto-Detect "/usr/bin/auto";\n'
    )
    found = network.parse_apt(dump)
    assert found == {"Acquire::http::Proxy": "http://cache:3142", "Acquire::http::Proxy::deb.example": "DIRECT"}
    text = network.apt_conf(found, ca_bundle="/run/secrets/ca_bundle")
    assert 'Acquire::http::Proxy "http://cache:3142";\n' in text
    assert 'Acquire::https::CAInfo "/run/secrets/ca_bundle";\n' in text
    assert network.apt_conf({}, mirror="http://m.example/debian") == 'Reprokit::AptMirror "http://m.example/debian";\n'
    assert network.apt_conf({}) == ""


def test_proxies_come_in_both_cases() -> None:
    found = network.proxies({"https_proxy": "http://a:1", "NO_PROXY": "x"})
    assert found == {"HTTPS_PROXY": "http://a:1", "https_proxy": "http://a:1", "NO_PROXY": "x", "no_proxy": "x"}
