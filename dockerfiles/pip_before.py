# Written for the interpreters of images, old ones included: the rules for our own code do not hold here.
# ruff: noqa
# mypy: ignore-errors
"""keeping_pip.py for environment.pip_before: pip sees the files that its indexes received before REPROKIT_PIP_BEFORE.

- The times are those of the indexes' JSON pages (PEP 691 and 700). pip 20.3 to 22.1 reads HTML alone: it gets these
  pages as HTML.
- A version that is pinned (==), by the case or by what it installs, comes whenever it was received: the limit decides
  only between its files.
- So does a project all of whose files are later: what was there before needs it, so that they were put there again, as
  those of atomicwrites in 2022.
- A file of which an index does not say when it received it is not used where another index says it of files of that
  project. Where none does, it ends pip, unless the version is pinned.
- Files of local find-links folders, and what is named by its own address, are not limited.
- The pip that pip itself starts, for the environment of an isolated build, is this one as well.

Runs with Python 2.7, and 3.5 and later.
"""

import json
import os
import re
import runpy
import sys
from datetime import datetime, timedelta

try:
    from html import escape
    from urllib.parse import urljoin
except ImportError:  # Python 2.7
    from cgi import escape

    from urlparse import urljoin

SCRIPT = os.path.abspath(__file__)
LIMIT = os.environ.get("REPROKIT_PIP_BEFORE", "")
JSON = "application/vnd.pypi.simple.v1+json"
RELAYED = re.compile(r"http://127\.0\.0\.1:\d+/local/")  # a file of the host's folders, as its gateway serves it

received = {}  # URL of a file -> when an index received it, None where it does not say so in words that can be read
unknown = {}  # URL of a file that is limited and has no such time -> the page that links to it
hidden = {}  # project -> (files that the limit hides, all its files)
late = {}  # project -> the URLs of these files
refused = set()  # projects of which no file was left that fits


def instant(text):
    """A time stamp of RFC 3339 in UTC; None for anything else."""
    stamp = r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d{1,6})?\d*(?:[Zz]|([+-])(\d\d):?(\d\d))?$"
    found = re.match(stamp, text) if hasattr(text, "encode") else None
    if not found:
        return None
    try:
        whole = datetime(*map(int, found.groups()[:6]))
        offset = timedelta(hours=int(found.group(9) or 0), minutes=int(found.group(10) or 0))
        return whole + timedelta(seconds=float(found.group(7) or 0)) + (-offset if found.group(8) == "+" else offset)
    except (ValueError, OverflowError):
        return None


def read_times():
    """Remember when each file was received: pip 22.2 and later, which read JSON."""
    from pip._internal.models.link import Link

    plain = Link.from_json

    def from_json(file_data, *rest, **more):
        time = instant(file_data.get("upload-time"))
        if time is None:  # pip 26 ends at a text that it cannot read
            file_data = dict((key, value) for key, value in file_data.items() if key != "upload-time")
        link = plain(file_data, *rest, **more)
        if link is not None:
            received[link.url] = time
        return link

    Link.from_json = staticmethod(from_json)


def read_times_as_html():
    """The same for earlier ones: ask for JSON, and hand it on as HTML."""
    from pip._internal.index import collector
    from pip._internal.network.utils import raise_for_status

    plain = collector._create_link_from_element

    def get(url, session):
        if collector.is_archive_file(collector.Link(url).filename):
            collector._ensure_html_response(url, session=session)
        accepted = JSON + ", text/html; q=0.1"
        answer = session.get(url, headers={"Accept": accepted, "Cache-Control": "max-age=0"})
        raise_for_status(answer)
        if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() == JSON:
            try:
                page = as_html(json.loads(answer.content.decode("utf-8")), answer.url)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise collector._NotHTML(JSON + " that is not a list of files", "GET")
            answer._content = page.encode("utf-8")
            answer.headers["Content-Type"] = "text/html; charset=utf-8"
        collector._ensure_html_header(answer)
        return answer

    def create(anchor, *rest, **more):
        link = plain(anchor, *rest, **more)
        if link is not None and anchor.get("data-reprokit-received"):
            received[link.url] = instant(anchor.get("data-reprokit-received"))
        return link

    collector._get_html_response = get
    collector._create_link_from_element = create


def as_html(page, address):
    """A page of files in JSON as one in HTML, as far as pip 20 to 22 reads it."""
    lines = ["<!DOCTYPE html>"]
    for one in page["files"]:
        hashes = one.get("hashes") or {}
        algorithm = "sha256" if "sha256" in hashes else min(hashes) if hashes else ""
        href = urljoin(address, one["url"]) + ("#%s=%s" % (algorithm, hashes[algorithm]) if algorithm else "")
        words = {"href": href, "data-requires-python": one.get("requires-python")}
        words["data-reprokit-received"] = one.get("upload-time")
        if one.get("yanked"):
            words["data-yanked"] = one["yanked"] if one["yanked"] is not True else ""
        said = ['%s="%s"' % (name, escape("%s" % value, True)) for name, value in words.items() if value is not None]
        lines.append("<a %s>%s</a>" % (" ".join(said), escape("%s" % one["filename"])))
    return "\n".join(lines)


def limit_files(limit):
    """What pip chooses from is what was received before."""
    from pip._internal.exceptions import InstallationError
    from pip._internal.index.package_finder import CandidateEvaluator, PackageFinder
    from pip._internal.utils.misc import redact_auth_from_url
    from pip._internal.utils.urls import path_to_url

    plain_all, plain_applicable = PackageFinder.find_all_candidates, CandidateEvaluator.get_applicable_candidates
    said = set()

    def in_folder(link, places):
        page = link.comes_from
        here = page is None or any(str(page).startswith(place) for place in places)
        return here and (link.scheme == "file" or RELAYED.match(link.url) is not None)

    def find_all_candidates(self, project_name):
        found = plain_all(self, project_name)
        links = self.search_scope.find_links
        places = [place if "://" in place else path_to_url(os.path.expanduser(place)) for place in links]
        late[project_name] = set()
        for one in found:
            url = one.link.url
            if received.get(url) is not None:
                late[project_name].update([url] if received[url] >= limit else ())
            elif not in_folder(one.link, places):
                unknown[url] = redact_auth_from_url(str(one.link.comes_from or url))
        hidden[project_name] = len(late[project_name]), len(found)
        return found

    def get_applicable_candidates(self, candidates):
        found = plain_applicable(self, candidates)
        name = self._project_name
        passed = late.get(name, ())
        later = [one for one in found if one.link.url in passed]
        strange = [one for one in found if one.link.url in unknown]
        kept = [one for one in found if one.link.url not in passed and one.link.url not in unknown]
        page, file = (unknown[strange[0].link.url], strange[0].link.filename) if strange else ("", "")
        if pinned(self._specifier):
            if strange and not (kept or later):
                say("%s is pinned: %s does not say when it received its files" % (file, page))
            return kept or later or strange
        if later and not kept:
            if len(passed) == hidden[name][1]:
                say("%s is not limited: its index received all of its files later" % name)
                return later
            refused.add(name)
        if not strange:
            return kept
        if kept or passed or any(one.link.url not in unknown for one in candidates):
            say("files of %s are not used: it does not say when it received them, and another index does" % page)
            return kept
        raise InstallationError(
            "environment.pip_before: %s does not say when it received %s, so that the limit %s cannot be kept. Pin the "
            "version (%s==...), use an index that says so in JSON (upload-time, PEP 700), or remove "
            "environment.pip_before" % (page, file, LIMIT, name)
        )

    def say(sentence):
        if sentence not in said:
            said.add(sentence)
            sys.stderr.write("reprokit: environment.pip_before: %s\n" % sentence)

    PackageFinder.find_all_candidates = find_all_candidates
    CandidateEvaluator.get_applicable_candidates = get_applicable_candidates


def pinned(specifier):
    """Whether a set of specifiers leaves one version."""
    return any(
        one.operator == "===" or (one.operator == "==" and not one.version.endswith(".*")) for one in specifier or ()
    )


def limit_nested():
    """The pip that fills the environment of an isolated build is this one."""
    try:
        from pip._internal.build_env import installer as builder  # pip 26.1 and later
    except ImportError:
        from pip._internal import build_env as builder

    plain = builder.call_subprocess

    def call_subprocess(command, *rest, **more):
        command = list(command)
        return plain([command[0], SCRIPT] + command[command.index("install") :], *rest, **more)

    builder.call_subprocess = call_subprocess


def say_what_was_hidden():
    """Behind pip's own words, where it ends because nothing is left that fits."""
    from pip._internal.cli import main as program

    plain = program.main

    def main(*words, **more):
        status = plain(*words, **more)
        for name in sorted(refused) if status else ():
            said = "reprokit: environment.pip_before: the limit %s hid %d of %d files of %s\n"
            sys.stderr.write(said % ((LIMIT,) + hidden[name] + (name,)))
        return status

    program.main = main


def fail(sentence):
    """End with a sentence."""
    sys.stderr.write("ERROR: environment.pip_before: %s\n" % sentence)
    sys.exit(1)


def limit_pip():
    """Hold the pip of this process, and those that it starts, to the limit."""
    limit = instant(LIMIT) or fail("%s is not a moment" % LIMIT)
    try:
        from pip import __version__ as version
    except ImportError:
        fail("%s has no pip" % sys.executable)
    try:
        from pip._internal.models.link import Link

        read_times() if hasattr(Link, "from_json") else read_times_as_html()
        limit_files(limit)
        limit_nested()
        say_what_was_hidden()
    except (ImportError, AttributeError) as error:
        fail("pip %s cannot be limited to a day, as pip 20.3 and later can (%s)" % (version, error))


def main():
    """Set the limit, where there is one, and be keeping_pip.py."""
    folder = sys.path.pop(0)  # nothing is imported from this script's folder
    sys.modules["reprokit_pip_before"] = sys.modules["__main__"]  # the pip of setup need not set it again
    if LIMIT:
        limit_pip()
    sys.path.insert(0, folder)
    runpy.run_path(os.path.join(os.path.dirname(SCRIPT), "keeping_pip.py"), run_name="__main__")


if __name__ == "__main__":
    main()
