
# What an image needs for another date.
if ls /usr/lib*/*/faketime; then true
elif command -v apt-get; then apt-get update; apt-get install -y --no-install-recommends libfaketime
else dnf install -y libfaketime; fi
