# Ends the machine that it runs on when its time is over, with nobody's help. POSIX sh; Linux's /proc.
#   run arm boot|client SECONDS NAME   take the time over and start the one instance
#   run                                go on with the time that the disk says is left
# Lines before this set cmd, reads, tick, first and most. Files beside it, renamed into place: `left` (seconds,
# uptime then, boot id), `pid` (pid, start ticks, boot id), `name`. Once it runs it needs none of them.
up() { read -r u _ </proc/uptime && echo "${u%%.*}"; }
put() { printf "%s\n" "$2" >"$1.$$" && mv -f "$1.$$" "$1"; } 2>/dev/null
save() { put left "$1 $(up) $boot"; }
pause() { sleep 0.1 2>/dev/null || sleep 1; }
ticks() { s=$(cat "/proc/$1/stat") && s=${s##*) } && set -- $s && [ "$1" != Z ] && echo "${20}"; } 2>/dev/null
alive() { read -r q t b <pid && [ "$b" = "$boot" ] && [ "$(ticks "$q")" = "$t" ]; } 2>/dev/null
mine() { [ ! -f pid ] || [ "$(cat pid)" = "$me" ]; } 2>/dev/null

# Sets l. Within one boot the time went on while nobody counted; it is never more than what was written.
left() {
  read -r l u b <left || return 1
  case $l$u in "" | *[!0-9]*) return 1 ;; esac
  [ "$b" = "$boot" ] || return 0
  u=$((u + l - $(up)))
  [ "$u" -ge "$l" ] || l=$u
} 2>/dev/null

go() {
  exec </dev/null >/dev/null 2>&1
  trap "" HUP
  ! alive || exit 0
  me="$$ $(ticks $$) $boot"
  left || exit 1
  end=$(($(up) + l)) w=5
  # Only now: who sees the pid may clear the folder.
  put pid "$me"
  [ "$tick" -gt 5 ] || w=$tick
  while l=$((end - $(up))) && [ "$l" -gt 0 ]; do
    mine || exit 0
    save "$l"
    [ "$l" -gt "$w" ] || w=$l
    sleep "$w"
    w=$tick
  done
  save 0
  fire
}

# Asked again for as long as there is a machine to ask: an answer proves nothing. Values stay in memory.
fire() {
  for v in $reads; do
    eval "[ -n \"\${$v-}\" ]" || eval "$v=\$(tr '\\000' '\\n' </proc/1/environ | sed -n \"s/^$v=//p\" | head -n 1)"
    export "$v"
  done 2>/dev/null
  w=
  ! command -v timeout >/dev/null || w="timeout 120"
  while mine; do
    $w sh -c "$cmd"
    sleep "$first"
    first=$((first * 2))
    [ "$first" -le "$most" ] || first=$most
  done
}

# The lock of one that died while it held it is taken by force.
arm() {
  n=0
  until mkdir lock 2>/dev/null || [ "$n" -ge 50 ]; do n=$((n + 1)) && pause; done
  [ "$1" = client ] || : >boot
  old=
  ! alive || old=$q
  if [ "$1" = client ] || [ -z "$old" ]; then start "$2" "$3"; else l=$2; fi
  rmdir lock
  alive || { echo "the watchdog could not be started" >&2 && exit 1; }
  echo "armed $l"
}

start() {
  name=$(cat name 2>/dev/null)
  [ -z "$name" ] || [ -z "$2" ] || [ "$name" = "$2" ] || [ -n "$old" ] || rm -f left
  left && [ "$l" -lt "$1" ] || l=$1
  [ "$l" -gt 0 ] || l=0
  save "$l" || return
  [ -z "$old" ] || kill -KILL "-$old" || kill -KILL "$old"
  rm -f pid
  [ -z "$2" ] || put name "$2"
  save "$l"
  w=
  ! command -v setsid >/dev/null || w=setsid
  $w sh "$0" </dev/null >/dev/null 2>&1 &
  n=0
  until alive || [ "$n" -ge 50 ]; do n=$((n + 1)) && pause; done
} 2>/dev/null

main() {
  umask 077
  cd "${0%/*}" || exit 1
  boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo none)
  if [ "${1-}" = arm ]; then arm "$2" "$3" "$4"; else go; fi
  exit
}
main "$@"
