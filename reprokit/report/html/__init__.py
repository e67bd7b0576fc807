"""The static report: ``reprokit report -o DIR``. Plain files that open from a disk and from any web server.

What is written::

    index.html                     the shell: header, <main>, footer; loads assets/*.js and data/overview.js
    assets/                        stylesheets and classic scripts, copied as they are (no modules, no build step)
    data/overview.js               all cases (:mod:`.overview`)
    data/case/NAME.js              a case (:mod:`.case`); NAME is its id (:func:`.writing.name`)
    data/cells/RUN/NAME/K.js       cells K * 100 to K * 100 + 99 of a run (:mod:`.cell`, :mod:`.packing`), of
                                   the newest runs only
    data/shared/HASH.js            a large value that several cells share; resolved by the loader, see below
    data/logs/RUN/NAME/K/N-TRIAL.txt   logs that a page does not have whole, capped
    reprokit-report.json           says that the folder is a report: nothing else is ever replaced

A data file is a classic script with one call, ``reprokit.data("case/NAME", {...});``, since pages on a disk may
not fetch JSON. ``reprokit.load("case/NAME")`` appends the script element when it is first asked for, and
resolves to the value; ``reprokit.load("cell/RUN/NAME/N")`` takes a cell out of its file. A value of a cell that is
``{"$shared": "HASH"}`` is replaced by what ``data/shared/HASH.js`` holds before the promise resolves: the writer moves
values of more than :data:`.packing.SHARED_FROM` characters there, so that 10,000 cells of one image hold its Dockerfile
and packages once.

Addresses: ``#/`` is the overview, ``#/case/ID`` a case, ``#/case/ID/cell/RUN-N`` a cell; behind ``?`` the state of the
page (``#/case/ID?x=cuda&y=arch&os=debian-12``). Texts of logs, cases and reasons only ever meet ``textContent``;
colours and lines of the page itself stand in the stylesheets, and a Content-Security-Policy allows nothing else.

Common to all data files: times are RFC 3339 in UTC; a verdict is its word (``"not-reproduced"``), or in columns its
position in ``overview.verdicts``; ``asExpected`` is true, false (it departs), or null (nothing was expected, or it is
inconclusive). The shape of each file stands in the docstring of the function that makes it.

For scripts, ``window.reprokit`` (assets/core.js) has::

    data(key, value), load(key) -> Promise
    view(pattern, async ({params, query}) -> {title, crumbs, node, shown})        # pattern: "/case/:id"; crumbs:
                                                # [[text, href]]; node: the content; shown(): called once it is in place
    h(tag, {class, id, on: {click: f}, data: {..}, attributes...}, ...children)   # children: texts, elements, lists
    href(path, query) -> "#/case/x?y=z"; go(href, {replace}); setQuery(query)     # setQuery: in place, no new view
    badge(verdict, asExpected) -> element; VERDICTS[verdict] -> {glyph, words}
    time(text) -> <time>; lang(text) -> "zh-Hans" | ...; announce(text)           # announce: the polite live region
    key(key, words, f) -> forget                                                   # a shortcut, listed by "?"
"""
