"""The measure of redaction: how many of the values planted into texts are found, how many clean texts stay whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reprokit.core import redaction
from reprokit.core.private_patterns import token
from reprokit.core.redaction import scrub
from tests.unit.core.clean_texts import clean
from tests.unit.core.planted import UNSEEN, Planted, corpus, everything, leak
from tests.unit.limits import within

HALVES = pytest.mark.parametrize("half", [0, 1], ids=["rules are written with it", "held out"])


def missed(planted: Sequence[Planted]) -> list[str]:
    """The texts in which a value, or a part of it, is left."""
    return [f"{one.kind}: {one.text!r}" for one in planted if leak(one, scrub(one.text).text)]


@HALVES
def test_planted_values_are_found(half: int) -> None:
    planted = everything(half)
    assert len(planted) >= 400
    assert len({one.kind for one in planted}) >= 60
    assert len({one.context for one in planted}) == 10
    assert {one.language for one in planted} == {"en", "zh"}
    assert len(missed(planted)) <= 0.02 * len(planted), missed(planted)


@HALVES
def test_clean_texts_are_left_alone(half: int) -> None:
    texts = clean(half)
    assert len(texts) >= 400
    touched = [text for text in texts if scrub(text).text != text]
    assert len(touched) <= 0.02 * len(texts), touched


@HALVES
def test_scrubbing_what_was_scrubbed_changes_nothing(half: int) -> None:
    for one in everything(half):
        once = scrub(one.text).text
        assert scrub(once).text == once


def test_most_values_of_services_that_the_rules_were_not_written_for_are_found() -> None:
    planted = [one for half in (0, 1) for one in corpus(half, UNSEEN)]
    assert len(missed(planted)) <= 0.1 * len(planted), missed(planted)


def test_a_text_with_every_value_leaks_none() -> None:
    """All of them in one text, as in a long report: what one rule leaves must not hide the next value."""
    planted = [one for one in corpus(0) if len(one.value) > 20 and "\n" not in one.value]
    left = scrub("\n\n".join(one.text for one in planted)).text
    assert not [one.text for one in planted if one.value in left]


def test_the_measure_sees_what_is_left() -> None:
    one = corpus(0)[0]
    assert leak(one, one.text)
    assert leak(one, one.text.replace(one.value, one.value[8:20]))
    assert not leak(one, one.around)


REPEATED = [
    "ssh a@b ",
    "login -p a ",
    "a@b:~$ \n",
    "http://a:b@",
    "secret='",
    "/home/a/",
    "curl -u a:b ",
    "\\\\a\\home\\",
]
REPEATED += [
    "token ",
    "echo a|docker ",
    "密码",
    "微信",
    "10.1.1.",
    "fe80:",
    "serial ",
    "%41",
    "a\0",
    "\u200ba",
    "ｐａ",
    "+1 1",
    "acme_aB1",
]


@pytest.mark.system
@pytest.mark.parametrize("text", REPEATED)
def test_time_and_memory_are_linear_in_the_text(text: str) -> None:
    with within(seconds=30, megabytes=60):
        scrub((text * 100_000)[:100_000])


def test_names_are_learned_but_for_words() -> None:
    assert scrub("kim@dune:~$ x\nkim's dune, dunes").text == "<user>@<host>:~$ x\n<user>'s <host>, dunes"
    assert scrub("max@train:~$ x\nmax(1) in train.py").text == "<user>@<host>:~$ x\nmax(1) in train.py"
    assert scrub("root@9f3c:/# x\nroot cause in /root").text == "root@<host>:/# x\nroot cause in /root"


def test_a_user_of_an_image_is_not_taken_out_of_the_code_that_is_called_so() -> None:
    code = "#include <wibq.h>\nint main() { wibq::run(); }\n"
    made = scrub(f"{code}wibq@5f00:~$ ./a.out\n").text
    assert made == f"{code}<user>@<host>:~$ ./a.out\n"
    assert scrub("wibq@5f00:~$ ls\nof wibq\n").text == "<user>@<host>:~$ ls\nof <user>\n"


def test_a_builds_log_keeps_names_and_addresses() -> None:
    text = "kim@dune:~$ ping 10.1.2.3 # GPU-7c3f2a1b-1234-5678-9abc-def012345678, +49 151 1234567"
    assert scrub(text, people=False).text == text


def test_what_is_hidden_is_replaced_and_the_rest_stays_as_it_is_written() -> None:
    text = "密码：ｈｕｎｔｅｒ２２，价格 100％，\u200b好 p\u200bassword=hun\u200bter2 %41"
    assert scrub(text).text == "密码：<secret>，价格 100％，\u200b好 p\u200bassword=<secret> %41"


def test_formats_of_tokens_know_their_ends() -> None:
    assert token().fullmatch("sntryu" + "_" + 64 * "a")
    assert not token().search("sntryu" + "_" + 65 * "a")


def test_many_names_are_learned_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    names = redaction._learned("".join(f"u{n}x@h{n}:~$ a\n" for n in range(5_000)))
    assert 100 < len(names) < 200


@pytest.mark.parametrize("text", ["We pin numpy==1.26.4 for now.", "Workaround: pin it to 1.26.4", "pin 2024.1.0"])
def test_a_pin_is_a_number_and_not_what_a_version_is_pinned_to(text: str) -> None:
    assert scrub(text).text == text
    assert scrub("My pin is 123456").text == "My pin is <secret>"
