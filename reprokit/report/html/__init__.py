"""The static report, plain files that open from a disk and from any web server: ``reprokit report -o DIR``.

    index.html, assets/            the shell; it loads the scripts, and data/overview.js (:mod:`.overview`)
    data/case/NAME.js              a case (:mod:`.case`); NAME is its id (:func:`.writing.name`)
    data/runs.js, data/runs/K.js   all runs, a hundred in a file (:func:`.overview.write_runs`)
    data/cells/RUN/NAME/K.js       cells K * 100 to K * 100 + 99 of a run (:mod:`.cell`), of the newest runs only
    data/shared/HASH.js            a large value of a cell, ``{"$shared": "HASH"}``, that several cells share
    data/logs/RUN/NAME/K/N-TRIAL.txt   logs that a page does not have whole, capped
    reprokit-report.json           says that the folder is a report: nothing else is ever replaced

A data file is a script with one call, ``reprokit.data("case/NAME", {...});``, since pages on a disk may not fetch JSON.
Texts of logs, cases and reasons only ever meet ``textContent``, and a Content-Security-Policy allows no other script.
"""
