# Runs the steps of one page, in their order, as somebody who follows it in one terminal. `docs/run.rs` writes the steps, one a line:
# the page's line, the kind, the file with the text, and for servers the port and the scheme, separated by tabs.
# Variables, the working directory and running servers last until the page's end. One line a step goes to $STATE/results.
set -u
ip link set lo up 2>/dev/null
declare -A servers
declare -px >"$STATE/env"
pwd >"$STATE/cwd"
# A later step sees what an earlier one exported or assigned.
step='set -eo pipefail; . "$STATE/env"; cd "$(cat "$STATE/cwd")"; set -a; . "$0"; declare -px >"$STATE/env"; pwd >"$STATE/cwd"'

stop() {
  [ -n "${servers[$1]:-}" ] || return 0
  kill -- "-${servers[$1]}" 2>/dev/null
  wait "${servers[$1]}" 2>/dev/null
  unset "servers[$1]"
}

serve() { # FILE PORT SCHEME
  stop "$2"
  setsid bash -c "$step" "$1" >"$log" 2>&1 </dev/null &
  servers[$2]=$!
  echo "$!" >>"$STATE/servers"
  for _ in $(seq 1200); do
    curl -q -skf --noproxy '*' --max-time 5 "$3://127.0.0.1:$2/health/ready" >/dev/null && return 0
    kill -0 "${servers[$2]}" 2>/dev/null || { echo "the server ended before it was ready" >>"$log"; return 1; }
    sleep 0.2
  done
  echo "the server was not ready within 240 s" >>"$log"
  return 1
}

while IFS=$'\t' read -r line kind file port scheme; do
  log="$STATE/log-$line"
  case $kind in
  sh) timeout 240 bash -c "$step" "$file" >"$log" 2>&1 </dev/null ;;
  python) timeout 240 python "$file" >"$log" 2>&1 </dev/null ;;
  serve) serve "$file" "$port" "$scheme" ;;
  esac
  printf '%s\t%s\n' "$line" $? >>"$STATE/results"
done <"$STATE/steps"
for port in "${!servers[@]}"; do stop "$port"; done
