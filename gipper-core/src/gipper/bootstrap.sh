# The inside of the bootstrap; bootstrap.py puts it into a subshell whose output the job's shell evaluates, so
# that nothing but `export` lines gets out: no helper, no option, no folder. People's lines go to stderr.
# Set before it: table base old own_path allowed first volume smi_s uv_s installer. POSIX sh.
set +efuxC
unset IFS
say() { printf 'gipper: %s\n' "$*" >&2; }
up() { read -r u _ </proc/uptime && echo "${u%%.*}"; }
has() { command -v "$1" >/dev/null 2>&1; }
free() { eval "[ -z \"\${$1+x}\" ]"; }
give() {
  v=$2
  case $v in (*\'*) v=$(printf '%s' "$v" | sed "s/'/'\\\\''/g") ;; esac
  printf "export %s='%s'\n" "$1" "$v"
  export "$1=$2"
}
# Only where nobody has set it, be it to nothing.
offer() { if free "$1"; then give "$1" "$2"; fi; }

# A line break inside a value must not look like a variable of its own: such values are left out.
from_first_process() {
  more='' odd=$(printf '\001')
  lines=$({ tr '\000\012' '\012\001' <"$first"; } 2>/dev/null)
  while IFS= read -r line; do
    name=${line%%=*} value=${line#*=}
    case $line in (*"$odd"* | [!A-Z]*) continue ;; (*=*) ;; (*) continue ;; esac
    case $name in (*[!A-Z0-9_]*) continue ;; (PATH) more=$value ;; esac
    case " $allowed " in (*" $name "*) offer "$name" "$value" ;; esac
  done <<LINES
$lines
LINES
}

# The session's PATH is sshd's, so what the image adds to it goes first; a job file's own PATH stays first.
path_of() {
  path=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin} extra=''
  [ -z "$home" ] || add "$home/.local/bin"
  set -f
  IFS=:
  for dir in $more; do add "$dir"; done
  unset IFS
  set +f
  [ -n "$extra" ] || return 0
  if [ "$own_path" = 1 ]; then path=$path:$extra; else path=$extra:$path; fi
  give PATH "$path"
}
add() { case ":$path:$extra:" in (*":$1:"*) ;; (*) case $1 in (/*) extra=${extra:+$extra:}$1 ;; esac ;; esac; }

caches() {
  at=${GIPPER_VOLUME:-$volume}
  if [ -d "$at" ] && (: >"$at/.gipper-$$") 2>/dev/null; then
    rm -f "$at/.gipper-$$"
    offer HF_HOME "$at/.cache/huggingface"
    offer UV_CACHE_DIR "$at/.cache/uv"
  elif [ -n "${GIPPER_VOLUME-}" ]; then
    say "the volume $at can't be written to: caches stay on the machine's own disk"
  fi
}

# pip gets two thirds of the time, so that some is left for the installer where pip hangs.
uv_if_missing() {
  ! has uv || return 0
  begun=$(up) tried=''
  end=$((begun + (uv_s * 2 + 2) / 3))
  by_pip --user || by_pip && return
  end=$((begun + uv_s))
  by_installer || say "uv could not be installed ($tried); the job goes on without it"
}
within() {
  s=$((end - $(up)))
  [ "$s" -gt 0 ] || return 124
  { timeout -s KILL "$s" "$@" </dev/null >/dev/null 2>&1; } 2>/dev/null
}
try() {
  what=$1
  shift
  within "$@" && return
  case $? in (124 | 137) r='no time left' ;; (126 | 127) r='not there' ;; (*) r="exit $?" ;; esac
  tried="$tried${tried:+, }$what: $r"
  return 1
}
by_pip() {
  try pip env PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install -q --no-input --retries 1 --timeout 10 "$@" uv && has uv
}
by_installer() {
  file=$home/.gipper-uv-$$
  [ -n "$home" ] && { try curl curl -fsSL -o "$file" "$installer" || try wget wget -q -O "$file" "$installer"; } &&
    try installer env UV_UNMANAGED_INSTALL="$home/.local/bin" sh "$file"
  rm -f "$file"
  has uv
}

# Status 3: there is none. An old one doesn't know compute_cap; index stands in its place, which has no point.
look() {
  PATH=$PATH:/usr/local/nvidia/bin:/usr/bin:/usr/lib/wsl/lib
  has nvidia-smi || return 3
  smi driver_version,compute_cap,memory.total,name
  s=$?
  case $s in (0 | 124 | 137) return "$s" ;; esac
  smi driver_version,index,memory.total,name
}
smi() {
  { told=$(timeout -s KILL "$smi_s" nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits </dev/null); } 2>/dev/null
  s=$?
  [ "$s" != 0 ] || printf '%s\n' "$told"
  return "$s"
}

torch() {
  told=$(look)
  s=$?
  driver='' low='' high='' cards='' n=0 tag=cpu note=''
  [ "$s" != 0 ] || read_cards
  case $s in
    (0) what='no GPU here' ;;
    (3) what='no GPU here (no nvidia-smi)' ;;
    (124 | 137) what="nvidia-smi gave no answer within $smi_s s, taken as no GPU" ;;
    (*) what="nvidia-smi failed (exit $s), taken as no GPU" ;;
  esac
  if [ "$n" -gt 0 ]; then
    what="driver ${driver:-unknown}"
    by_table
  fi
  if free GIPPER_TORCH_INDEX; then offer GIPPER_TORCH_INDEX "$base/${GIPPER_TORCH_CUDA:-$tag}"; else note=''; fi
  offer GIPPER_TORCH_CUDA "${GIPPER_TORCH_INDEX##*/}"
  say "$what, PyTorch index $GIPPER_TORCH_INDEX${note:+ ($note)}"
  [ "$n" = 0 ] || printf '%s\n' "$cards" >&2
}
read_cards() {
  while IFS= read -r line; do
    case $line in (*', '*', '*', '*) ;; (*) continue ;; esac
    rest=${line#*, }
    card "${line%%, *}" "${rest%%, *}" "${rest#*, }"
  done <<CARDS
$told
CARDS
}
card() {
  case $1 in ([0-9]*) driver=${driver:-$1} ;; esac
  case $2 in
    (*[!0-9.]* | *.*.* | *. | .*) ;;
    (*.?)
      c=${2%.*}${2#*.}
      [ "${low:-$c}" -lt "$c" ] || low=$c
      [ "${high:-$c}" -gt "$c" ] || high=$c
      ;;
  esac
  case ${3%%, *} in ([0-9]*) mem="${3%%, *} MiB" ;; (*) mem='memory unknown' ;; esac
  cards="$cards${cards:+
}gipper: GPU $n: ${3#*, }, $mem"
  n=$((n + 1))
}
by_table() {
  branch=${driver%%.*} cap=${high:--1}
  case $branch in ('' | *[!0-9]*) branch=0 ;; esac
  [ "${low:-$old}" -ge "$old" ] || cap=$low
  while read -r from below least t text; do
    if [ "$cap" -ge "$from" ] && [ "$cap" -lt "$below" ] && [ "$branch" -ge "$least" ]; then
      tag=$t note=$text
      break
    fi
  done <<TABLE
$table
TABLE
}

main() {
  home=${HOME-}
  case $home in (/?*) ;; (*) home='' && [ "$(id -u)" != 0 ] || home=/root ;; esac
  from_first_process
  path_of
  offer PIP_DISABLE_PIP_VERSION_CHECK 1
  caches
  uv_if_missing
  torch
  give GIPPER_BOOTSTRAPPED 1
}

# What one shell of a run found out the next one takes over: nothing is asked, tried or told twice.
kept=${GIPPER_BOOTSTRAP_STATE-}
if [ -n "$kept" ] && [ -f "$kept" ]; then
  cat "$kept"
else
  out=$(main)
  printf '%s\n' "$out"
  [ -z "$kept" ] || { printf '%s\n' "$out" >"$kept.tmp" && mv -f "$kept.tmp" "$kept"; } 2>/dev/null
fi
