#!/bin/sh
# rest.sh REST_US ROUND_US: ends the last cell of a batch on an exact board, as the next cell would (end_cell).
set -u
. "${0%/*}/lib.sh"
end_cell "$@"
