#!/bin/sh
# login.sh: asks for a user name and gives root's shell. Boards in a lab have no secrets, and whoever
# has the serial line has the board.
printf '\niotoll login: '
read -r _ || exit 1
cd /root || exit 1
export PS1='root@iotoll:~# ' PATH=/usr/bin:/usr/sbin HOME=/root
exec sh -i
