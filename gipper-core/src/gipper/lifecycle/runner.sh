# Runs one job to its end without anybody watching. Arguments: folder, seconds for setup, seconds for
# the command, seconds between TERM and KILL. Everything that it has to say becomes a file in folder,
# renamed into place: pid, started, rc. POSIX sh; needs timeout.
umask 077
cd "$1" || exit 1
here=$(pwd)
setup_s=$2 command_s=$3 grace=$4
run=$(cat run_id)
put() { printf '%s\n' "$2" >"$1.tmp" && mv "$1.tmp" "$1"; }
centis() { read -r up _ </proc/uptime && echo "${up%.*}${up#*.}"; }
ticks() { s=$(cat "/proc/$1/stat") && s=${s##*) } && set -- $s && echo "${20}"; }
boot=$(cat /proc/sys/kernel/random/boot_id)
put pid "$$ $(ticks $$) $boot"

# Whatever the job leaves behind carries its run id in the environment, even daemons in other sessions.
sweep() {
  for e in /proc/[0-9]*/environ; do
    if tr '\0' '\n' 2>/dev/null <"$e" | grep -qx "GIPPER_RUN_ID=$run"; then
      p=${e#/proc/} && kill -KILL "${p%/environ}" 2>/dev/null
    fi
  done
}

if [ -f secrets.path ]; then
  secrets=$(cat secrets.path) && rm -f secrets.path
  set -a && . "$secrets" && set +a
  rm -f "$secrets"
fi
set -a && . ./env.sh && set +a
shell=sh && command -v bash >/dev/null 2>&1 && shell=bash

# The bootstrap runs in a shell that then becomes the job's: within its limit, and it can't fail it.
[ -f bootstrap.sh ] && into='GIPPER_BOOTSTRAP_STATE=$1/bootstrap.env
command . "$1/bootstrap.sh" || echo "gipper: the bootstrap failed (exit $?); the job goes on without it"
unset GIPPER_BOOTSTRAP_STATE
exec "$2" "$1/$3"' || into='exec "$2" "$1/$3"'

# Sets rc and late; a command can't end after its limit unless the limit ended it.
limited() {
  began=$(centis)
  (cd work && exec timeout -k "$grace" "$1" sh -c "$into" sh "$here" "$shell" "$2") </dev/null >>log 2>&1
  rc=$?
  spent=$(($(centis) - began)) late=0
  case $rc in 124 | 137) [ "$spent" -ge "$(($1 * 100))" ] && late=1 ;; esac
  [ "$late" = 0 ] || sweep
}

finish() { sweep; put rc "$1 $rc $late $spent"; exit 0; }

if [ -f setup.sh ]; then
  limited "$setup_s" setup.sh
  [ "$rc" = 0 ] || finish setup
  put setup_s "$spent"
fi
put started "$(date +%s)"
limited "$command_s" job.sh
finish command
