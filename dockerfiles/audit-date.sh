# The beginning of a command that takes the time to be MOMENT (seconds since 1970) by libfaketime. An offset, unlike a
# date, is the same time for all processes.
export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 FAKETIME=$((MOMENT - $(date +%s)))
case $FAKETIME in -*) ;; *) FAKETIME=+$FAKETIME ;; esac
for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib64/faketime/libfaketimeMT.so.1; do
  if [ -e "$library" ]; then export LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}"; fi
done
echo "reprokit audit: $(date -u +%F)"
