# Reads the names of tests (to fix, to stay), a line each, and what a test run printed.
# What stands next to the name of a test says how it ended; the last line of it counts.
BEGIN { word["passed"] = word["pass"] = word["ok"] = word["xfail"] = "pass"; word["skipped"] = word["skip"] = "skip"
        word["failed"] = word["fail"] = word["error"] = word["err"] = word["e"] = word["f"] = "fail" }
FILENAME == ARGV[1] || FILENAME == ARGV[2] {
    name[++n] = $0; fixed[n] = FILENAME == ARGV[1]
    cut[n] = $0 ~ /\[(.*[^\]])?$/; next  # some data sets cut a name at its first blank
}
/>>>>> Start Test Output/ { split("", end); over = 0; next }
/>>>>> End Test Output/ { over = 1 }
over { next }
{
    gsub(/\033\[[0-9;]*m/, ""); sub(/\r$/, "")
    for (i = 1; i <= n; i++) if (at = index($0, name[i])) {
        before = substr($0, 1, at - 1); after = substr($0, at + length(name[i]))
        if (before !~ /(^|[ \t])$/ || (!cut[i] && after !~ /^($|[ \t(:])/)) continue
        gsub(/[^A-Za-z]+/, " ", before); k = split(before, b, " "); gsub(/[^A-Za-z]+/, " ", after); m = split(after, a, " ")
        how = k ? word[tolower(b[k])] : ""
        for (j = 1; how == "" && j <= (cut[i] ? m : m > 0); j++) if (j == 1 || length(a[j]) > 1) how = word[tolower(a[j])]
        if (how != "" && !(cut[i] && end[i] == "fail")) end[i] = how
    }
}
END {
    for (i = 1; i <= n; i++) {
        all[fixed[i]]++
        if (end[i] == "pass" || (end[i] == "skip" && !fixed[i])) good[fixed[i]]++
        else print (fixed[i] ? "to fix" : "to stay") ", does not pass: " name[i]
    }
    if (all[0] && !good[0]) { print "no test to stay passes: this is not their environment"; exit 3 }
    for (i = 1; i >= 0; i--) if (all[i] > good[i]) {
        print "tests to " (i ? "fix: " : "stay: ") all[i] - good[i] " of " all[i] " do not pass"; exit 1
    }
}
