#!/bin/sh
# MariaDB as MySQL's image starts it. Root's password and a user are those of the variables of
# MariaDB's image; without them root has none, as KFP's manifests have it.
set -eu
data=/var/lib/mysql socket=/tmp/mysqld.sock
if [ ! -d "$data/mysql" ]; then
    mariadb-install-db --datadir="$data" --skip-test-db --auth-root-authentication-method=normal >/dev/null
    cat >/tmp/first.sql <<SQL
CREATE DATABASE IF NOT EXISTS \`${MARIADB_DATABASE:-mlpipeline}\`;
CREATE USER '${MARIADB_USER:-penstock}'@'%' IDENTIFIED BY '${MARIADB_PASSWORD:-}';
GRANT ALL ON \`${MARIADB_DATABASE:-mlpipeline}\`.* TO '${MARIADB_USER:-penstock}'@'%';
CREATE USER 'root'@'%' IDENTIFIED BY '${MARIADB_ROOT_PASSWORD:-}';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED BY '${MARIADB_ROOT_PASSWORD:-}';
SQL
    first=--init-file=/tmp/first.sql
fi
exec mariadbd --no-defaults --datadir="$data" --socket="$socket" --pid-file=/tmp/mysqld.pid ${first:-} "$@"
