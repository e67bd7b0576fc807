# The beginning of a command that, with all that it starts, runs on the first core that it may use.
taskset -cp "$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)" $$ > /dev/null \
 && echo "reprokit audit: one core" || true
