# Written for the Python that a distribution's gdb has, 3.6 and later: the rules for our own code do not hold here.
# ruff: noqa
# mypy: ignore-errors
"""Runs in the Python of a gdb, in a container of its own: says which functions of debug files are at addresses."""

import json
import os

import gdb


def functions(address):
    """Function, file and line of what is there, innermost first: what was inlined, and what it was inlined into."""
    found = []
    at = gdb.find_pc_line(address)
    block = gdb.block_for_pc(address)
    while block is not None and not block.is_static and not block.is_global:
        if block.function is not None:
            source = block.function.symtab.filename if block.function.symtab else ""
            line = at.line if not found else 0
            found.append([block.function.print_name, at.symtab.filename if line and at.symtab else source, line])
        block = block.superblock
    if not found:
        words = gdb.execute("info symbol 0x%x" % address, to_string=True)
        if " in section " in words:
            found.append([words.split(" in section ")[0].rsplit(" + ", 1)[0], "", 0])
    return found


for number, (path, addresses) in enumerate(json.loads(os.environ["REPROKIT_ASKED"])):
    try:
        gdb.execute("symbol-file %s" % path, to_string=True)
    except gdb.error as error:
        print("@" + json.dumps([number, -1, str(error)]))
        continue
    for address in addresses:
        try:
            print("@" + json.dumps([number, address, functions(address)]))
        except (gdb.error, RuntimeError):
            pass
print("@" + json.dumps([-1, -1, "end"]))
