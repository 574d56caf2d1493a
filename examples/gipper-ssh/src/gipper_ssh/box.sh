# Runs on a box, read from standard input or handed to its watchdog. Lines before this set the variables
# that the action reads. POSIX sh with flock and GNU grep. What it has to say are lines "@gipper KEY VALUE".
# The lease is one file, written and renamed under the lock; whoever holds no lock only reads it.
umask 077
LC_ALL=C
export LC_ALL
h=${HOME:-/root}
s=$h/.gipper-ssh
why=
boot=$(cat /proc/sys/kernel/random/boot_id)
tell() { printf "@gipper %s %s\n" "$1" "$2"; }
up() { read -r u _ </proc/uptime && echo "${u%%.*}"; }
ticks() { s_=$(cat "/proc/$1/stat") && s_=${s_##*) } && set -- $s_ && echo "${20}"; } 2>/dev/null

locked() {
  mkdir -p "$s" && true >>"$s/lock" || { why="$s can't be written" && return 1; }
  exec 9>>"$s/lock"
  flock -w "$1" 9 || { why="another client works on this box" && return 1; }
}

field() { printf "%s\n" "$lease" | sed -n "s/^$1=//p" | head -n 1; }
number() { case $1 in "" | *[!0-9]* | ??????????????*) return 1 ;; esac; }

# Sets lease (the whole text, empty where there is none) and l_*.
read_lease() {
  lease=
  [ -e "$s/lease" ] || return 0
  lease=$(cat "$s/lease") && [ -n "$lease" ] || { why="$s/lease can't be read" && return 1; }
  l_name=$(field name) l_life=$(field life) l_end=$(field end) l_wall=$(field wall) l_boot=$(field boot)
  l_key=$(field key | base64 -d 2>/dev/null)
  l_run=${l_name#gipper-*-}
  l_run=${l_run%%-*}
  case $l_name in gipper-*-*-*-*) ;; *) l_run= ;; esac
  case $l_run in "" | *[!0-9a-z]*) why="$s/lease names no run" && return 1 ;; esac
  number "$l_life" && number "$l_end" && number "$l_wall" || { why="$s/lease tells no time" && return 1; }
}

# Sets l, the seconds left. After a restart the wall clock counts; a wrong one can't make the lease longer
# than it was.
left() {
  u=$(up)
  if [ "$l_boot" = "$boot" ]; then
    l=$((l_end - u))
  else
    l=$((l_wall - $(date +%s)))
    [ "$l" -le "$((l_life - u))" ] || l=$((l_life - u))
  fi
  [ "$l" -gt 0 ] || l=0
}

marked() {
  for p in $(grep -lzxF "GIPPER_RUN_ID=$l_run" /proc/[0-9]*/environ 2>/dev/null); do
    p=${p#/proc/} && p=${p%/environ}
    [ "$p" = "$$" ] || echo "$p"
  done
}

end_processes() {
  n=0
  while p=$(marked) && [ -n "$p" ]; do
    [ "$n" -lt 50 ] || { why="processes of the run don't end: $(echo $p)" && return 1; }
    kill -KILL $p 2>/dev/null
    n=$((n + 1))
    sleep 0.1
  done
}

remove_files() {
  d=$h/gipper/$l_run
  if [ -d "$d" ]; then
    # A job may have taken its own rights away; nothing that is mounted there is the job's.
    rm -rf --one-file-system "$d" 2>/dev/null || { chmod -R u+rwX "$d" && rm -rf --one-file-system "$d"; } 2>/dev/null
    [ ! -e "$d" ] || { why="$d can't be removed" && return 1; }
    rmdir "$h/gipper" 2>/dev/null
  fi
  rm -f "/dev/shm/.gipper-$l_run"
}

remove_watchdog() {
  w=$h/.gipper-watchdog
  [ "$(cat "$w/name" 2>/dev/null)" = "$l_name" ] || return 0
  if read -r p t b <"$w/pid" && [ "$b" = "$boot" ] && [ "$(ticks "$p")" = "$t" ]; then
    kill -KILL "-$p" || kill -KILL "$p"
  fi 2>/dev/null
  line="@reboot sh $w/run"
  if crontab -l 2>/dev/null | grep -qxF "$line"; then
    rest=$(crontab -l | grep -vxF "$line")
    if [ -n "$rest" ]; then printf "%s\n" "$rest" | crontab -; else crontab -r; fi
  fi
  unit=/etc/systemd/system/gipper-watchdog.service
  if grep -qF "setsid sh $w/run " "$unit" 2>/dev/null; then
    systemctl disable -q gipper-watchdog.service
    rm -f "$unit"
  fi
  rm -rf "$w"
  [ ! -e "$w" ] || { why="$w can't be removed" && return 1; }
}

# Sets k to the real file: a link stays a link, and the file is never there in halves.
key_file() { k=$(readlink -f "$h/.ssh/authorized_keys") && [ -n "$k" ]; }

remove_key() {
  [ -n "$l_key" ] && key_file && [ -f "$k" ] && grep -qxF -e "$l_key" "$k" || return 0
  cp -p "$k" "$k.gipper" && { grep -vxF -e "$l_key" "$k" >"$k.gipper" || [ $? = 1 ]; } && mv -f "$k.gipper" "$k" ||
    { rm -f "$k.gipper" && why="the key can't be taken out of $k" && return 1; }
}

add_key() {
  mkdir -p "$h/.ssh" && key_file || return 1
  ! grep -qxF -e "$l_key" "$k" 2>/dev/null || return 0
  if [ -e "$k" ]; then cp -p "$k" "$k.gipper" || return 1; else true >"$k.gipper" || return 1; fi
  { [ -z "$(tail -c 1 "$k.gipper")" ] || echo; printf "%s\n" "$l_key"; } >>"$k.gipper" && mv -f "$k.gipper" "$k" ||
    { rm -f "$k.gipper" && return 1; }
}

# The lease goes last: whatever ends this half way, somebody does it again.
clean() {
  end_processes && remove_files && remove_watchdog && remove_key && rm -f "$s/lease" && sync "$s"
}

write_lease() {
  u=$(up)
  printf "%s\n" "name=$name" "life=$life" "end=$((u + life))" "wall=$(($(date +%s) + life))" "boot=$boot" \
    "box=$box" "token=$token" "created=$created" "usd_h=$usd_h" "ports=$ports" "visible=$visible" \
    "key=$key" >"$s/lease.new" && sync "$s/lease.new" && mv -f "$s/lease.new" "$s/lease" && sync "$s"
}

tell_lease() {
  [ -n "$lease" ] || { tell lease none && return; }
  left
  tell lease "$l_name"
  tell left "$l"
  for f in life box token created usd_h ports visible; do tell "$f" "$(field "$f")"; done
}

tell_facts() {
  command -v flock >/dev/null || tell lacks flock
  echo | grep -zq . 2>/dev/null || tell lacks "grep -z (GNU grep)"
  command -v base64 >/dev/null || tell lacks base64
  tell disk "$(df -Pk "$h" | awk "NR == 2 { print \$4 }")"
  tell memory "$(awk "/^MemTotal:/ { print \$2 }" /proc/meminfo)"
  tell cpus "$(nproc)"
  command -v nvidia-smi >/dev/null || { tell no_gpus "no nvidia-smi" && return; }
  g=$(timeout 10 nvidia-smi --query-gpu=index,name,memory.total,driver_version,compute_cap \
    --format=csv,noheader,nounits 2>&1) || { tell no_gpus "nvidia-smi failed: $(echo "$g" | head -n 1)" && return; }
  printf "%s\n" "$g" | while read -r row; do tell gpu "$row"; done
}

# Behind the lock, so that nobody is half way through taking or ending the lease that is told.
look() {
  { [ ! -e "$s/lock" ] || locked 5; } && read_lease && tell_lease || tell fault "$why"
  [ "$facts" = 0 ] || tell_facts
}

# One of many clients gets past the lock with the lease in hand; the others see whose it is.
rent() {
  locked 5 && read_lease || { tell gone "$why" && return; }
  if [ -n "$lease" ]; then
    left
    [ "$l_name" != "$name" ] || { tell leased again && tell_lease && return; }
    [ "$l" = 0 ] || { tell gone "leased to $l_name for another $l s" && return; }
    clean || { tell gone "the lease of $l_name is over, but its remains can't be cleared away: $why" && return; }
  fi
  # A request that was stuck on its way must not act when nobody waits for it any more.
  [ "$(up)" -lt "$act_by" ] || { tell gone "it took too long" && return; }
  write_lease || { rm -f "$s/lease.new" && [ ! -e "$s/lease" ] && tell refused "$s can't be written" && return; }
  read_lease || { tell fault "$why" && return; }
  add_key || { clean && tell refused "the key can't be put into $h/.ssh/authorized_keys" || tell fault "$why"; return; }
  tell leased new
  tell_lease
}

end() {
  [ -e "$s/lease" ] || { tell ended "no lease" && return; }
  locked 30 && read_lease || { tell fault "$why" && return 1; }
  [ -n "$lease" ] && [ "$l_name" = "$name" ] || { tell ended "no such lease" && return; }
  clean && tell ended cleaned || { tell fault "$why" && return 1; }
}
