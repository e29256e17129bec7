#!/bin/sh
# prepare.sh: makes LAVA's empty database, in the lab's root file system. Debian's maintainer scripts
# skip it while no PostgreSQL runs.
set -eu
version=$(ls /etc/postgresql)
programs=/usr/lib/postgresql/$version/bin
data=/var/lib/postgresql/$version/main

install -d -o postgres -g postgres -m 2775 /run/postgresql
install -d -o lavaserver -g lavaserver /run/lava
install -o lavaserver -g lavaserver -m 640 /lab/settings.yaml /etc/lava-server/settings.d/10-lab.yaml
runuser -u postgres -- "$programs/pg_ctl" -D "$data" -w -l /var/log/postgresql/prepare.log \
    -o "-c config_file=/etc/postgresql/$version/main/postgresql.conf -c listen_addresses= -c fsync=off" start
python3 /usr/share/lava-server/postinst.py --config --db --fixup
# The secret key is made when a lab starts, so that no two have the same.
rm -f /etc/lava-server/settings.d/00-secret-key.yaml
runuser -u postgres -- "$programs/pg_ctl" -D "$data" -m fast -w stop
