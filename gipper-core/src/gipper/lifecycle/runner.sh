# Runs one job to its end without anybody watching. Arguments: folder, seconds for setup, seconds for
# the command, seconds between TERM and KILL. Everything that it has to say becomes a file in folder,
# renamed into place: pid, setup_s (hundredths of a second, once setup succeeded), started, rc.
# POSIX sh; needs timeout.
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

handed=
if [ -f secrets.path ]; then
  handed=$(cat "$(cat secrets.path)")
  rm -f "$(cat secrets.path)" secrets.path
fi
shell=$(command -v bash || command -v sh)

# The job's variables are set in a shell that then becomes the job's, never in this one: whatever they are
# called, its limits, its paths and its sweep stay its own.
vars='set -a
. "$1/env.sh"
eval "$GIPPER_HANDED"
set +a
unset GIPPER_HANDED
'
# The bootstrap runs there too: within the phase's limit, and it can't fail the job.
[ -f bootstrap.sh ] && into=$vars'GIPPER_BOOTSTRAP_STATE=$1/bootstrap.env
command . "$1/bootstrap.sh" || echo "gipper: the bootstrap failed (exit $?); the job goes on without it"
unset GIPPER_BOOTSTRAP_STATE
exec "$2" "$1/$3"' || into=$vars'exec "$2" "$1/$3"'

# Sets rc and late; a command can't end after its limit unless the limit ended it.
limited() {
  began=$(centis)
  (cd work && GIPPER_HANDED=$handed GIPPER_RUN_ID=$run exec timeout -k "$grace" "$1" sh -c "$into" sh "$here" "$shell" "$2") </dev/null >>log 2>&1
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
