# The beginning of a command whose pytest and unittest run their tests in reverse order: of any two, the other is first.
audit=$(mktemp -d) && cat > "$audit/sitecustomize.py" <<'REPROKIT' || true
import importlib.machinery, sys
MARK = "reprokit audit: reversed"
def of_pytest(module):
    collect = module.Session.perform_collect
    def perform_collect(self, *given, **named):
        found = collect(self, *given, **named)
        self.items.reverse()
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and len(self.items) > 1:
            reporter.write_line(MARK)
        return found
    module.Session.perform_collect = perform_collect
def turn(suite):
    tests = getattr(suite, "_tests", None)
    if isinstance(tests, list):
        for test in tests:
            turn(test)
        tests.reverse()
def of_unittest(module):
    run = module.TextTestRunner.run
    def run_reversed(self, test):
        turn(test)
        if test.countTestCases() > 1:
            sys.stderr.write(MARK + "\n")
        return run(self, test)
    module.TextTestRunner.run = run_reversed
CHANGES = {"_pytest.main": of_pytest, "unittest.runner": of_unittest}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in CHANGES else None
        if spec is not None:
            execute = spec.loader.exec_module
            def exec_module(module):
                execute(module)
                CHANGES[name](module)
            spec.loader.exec_module = exec_module
        return spec
if sys.version_info >= (3, 4):
    sys.meta_path.insert(0, Finder)
REPROKIT
export PYTHONPATH="$audit${PYTHONPATH:+:$PYTHONPATH}"
