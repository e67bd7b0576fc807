"""The static report: ``reprokit report -o DIR``. Plain files that open from a disk and from any web server::

    index.html                     the shell: header, <main>, footer; loads assets/*.js and data/overview.js
    assets/                        stylesheets and classic scripts, copied as they are (no modules, no build step)
    data/overview.js               all cases (:mod:`.overview`)
    data/case/NAME.js              a case (:mod:`.case`); NAME is its id (:func:`.writing.name`)
    data/cells/RUN/NAME/K.js       cells K * 100 to K * 100 + 99 of a run (:mod:`.cell`), of the newest runs only
    data/shared/HASH.js            a large value that several cells share
    data/logs/RUN/NAME/K/N-TRIAL.txt   logs that a page does not have whole, capped
    reprokit-report.json           says that the folder is a report: nothing else is ever replaced

A data file is a classic script with one call, ``reprokit.data("case/NAME", {...});``, since pages on a disk may
not fetch JSON; ``reprokit.load("case/NAME")`` (assets/core.js) resolves to the value. A value of a cell that is
``{"$shared": "HASH"}`` is replaced by what ``data/shared/HASH.js`` holds.

Times are RFC 3339 in UTC; a verdict is its word (``"not-reproduced"``), or in columns its position in
``overview.verdicts``; ``asExpected`` is true, false (it departs), or null. Texts of logs, cases and reasons only ever
meet ``textContent``, and a Content-Security-Policy allows no style or script of the page itself.
"""
