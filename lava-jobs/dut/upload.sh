#!/bin/sh
# upload.sh FILE URL: sends FILE by HTTP PUT to URL/SHA256 and prints `SIZE SHA256 PROBLEM`, without
# PROBLEM when the server has it whole: it keeps nothing whose size or SHA-256 differ. By nc, since
# busybox's wget stops at the first NUL of a file, and says that all is well.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
file=$1 url=$2
TRIES=3
SILENCE=60 # seconds until a server that says nothing is given up

case $url in http://*/*) ;; *) fail handover "$url: a URL like http://HOST:PORT/FOLDER is needed" ;; esac
rest=${url#http://}
at=${rest%%/*} folder=${rest#*/}
host=${at%:*} port=80
case $at in *:*) port=${at##*:} ;; esac
size=$(wc -c <"$file") || fail handover "no $file"
size=$((size)) # without the blanks that some wc print
sha256=$(sha256sum "$file" | cut -d ' ' -f 1)

put() {
    {
        printf 'PUT /%s/%s HTTP/1.1\r\nHost: %s\r\n' "$folder" "$sha256" "$at"
        printf 'Content-Length: %s\r\nConnection: close\r\n\r\n' "$size"
        cat "$file"
    } | busybox nc -w "$SILENCE" "$host" "$port" 2>&1 | head -n 1 | tr -cd 'A-Za-z0-9 ./:_-'
}

tries=0 said=
while [ "$tries" -lt "$TRIES" ]; do
    tries=$((tries + 1))
    said=$(put)
    case $said in
    "HTTP/1."?" 20"[01]*) said= && break ;;
    "") said="no answer" ;;
    esac
done
echo "$size $sha256${said:+ $said}"
