#!/usr/bin/env bash
# Runs as root in the guest (machine.sh), in a directory with two releases of busbar, `old` and `new`: installs, works, breaks, upgrades
# and removes, one line for each thing that must hold. Ends with 1 when one did not.
set -u
prefix=/opt/busbar
repo=/srv/app
state=/var/lib/busbar
faults=0

# check WORDS COMMAND...: whether the command succeeds within three minutes; it is asked again until then.
check() {
  local words=$1 end=$((SECONDS + 180))
  shift
  until "$@" >/tmp/said 2>&1; do
    if ((SECONDS > end)); then
      echo "FAILED  $words: $(tail -n 3 /tmp/said | tr '\n' ' ')"
      ((faults++))
      return 1
    fi
    sleep 0.2
  done
  echo "ok      $words"
}
as() { runuser -u busbar -- env -C "$repo" "$@"; }
# need WORDS COMMAND...: the same, and without it the rest says nothing.
need() { check "$@" || finish; }
finish() {
  ((faults == 0)) && exit 0
  echo "$faults failed; the journal's last words:"
  journalctl --no-pager -n 80 -o cat
  exit 1
}
busctl() { as "$prefix/bin/busctl" "$@"; }
active() { systemctl is-active --quiet "$@"; }
main_pid() { systemctl show --property=MainPID --value "$1"; }
task() { busctl tasks --run guest --json | node -e '
  const all = require("fs").readFileSync(0, "utf8");
  const find = (value) => !value || typeof value !== "object" ? undefined
    : value.id === process.argv[1] || value.task === process.argv[1] ? value : Object.values(value).map(find).find(Boolean);
  const found = all.trim().split("\n").map((line) => find(JSON.parse(line))).find(Boolean);
  if (!JSON.stringify(found ?? {}).includes(process.argv[2])) { console.log(JSON.stringify(found)); process.exit(1); }' "$1" "$2"; }
long_pid() { cat "$state/long.pid"; }
long_lives() { [[ -s $state/long.pid ]] && kill -0 "$(long_pid)"; }
long_goes_on() { long_lives && [[ $(long_pid) == "$long" ]]; }
back() { active "$1" && [[ $(main_pid "$1") != "$2" && $(main_pid "$1") != 0 ]]; }
registered() { busctl tasks --json; }
exposure_below() {
  local score
  score=$(systemd-analyze security --no-pager "$1" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
  echo "$1: $score"
  [[ -n $score ]] && awk -v score="$score" -v bar="$2" 'BEGIN { exit !(score < bar) }'
}
none() { ! "$@"; }
shim_units() { systemctl list-units --plain --no-legend 'busbar-shim@*.service' | cut -d' ' -f1; }
no_shims() { [[ -z $(shim_units) ]]; }
gone() { for path; do [[ ! -e $path && ! -L $path ]] || { echo "$path"; return 1; }; done; }
is_current() { [[ $(readlink "$prefix/current") == "releases/$1" ]]; }
kill_and_see() { # UNIT WORDS
  local before
  before=$(main_pid "$1")
  kill -KILL "$before"
  check "$2" back "$1" "$before"
}

echo "systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), Linux $(uname -r), Node $(node --version)"

# Install
need "install" old/scripts/install
check "the system's busctl is still the one that is found" test "$(type -P busctl)" = /usr/bin/busctl
check "the socket of shims waits" active busbar-shim.socket
mkdir -p "$repo"
chown busbar: "$repo"
as git init -q -b main .
as git -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m base
need "add a repository: bus and scheduler say that they are ready" old/scripts/install add "$repo"
name=$(systemd-escape --path "$repo/.git")
bus=busbar-bus@$name.service
scheduler=busbar-scheduler@$name.service
check "both are active" active "$bus" "$scheduler"
check "exposure of the bus is below 2.0" exposure_below "$bus" 2.0
check "exposure of the scheduler is below 4.0" exposure_below "$scheduler" 4.0
check "exposure of a shim is below 4.0" exposure_below busbar-shim@x.service 4.0
check "nobody else reaches the socket of shims" none setpriv --reuid=65534 --clear-groups test -w /run/busbar/shim.sock

# A run with a hog, a bomb, one who flees and one who takes long
cat >"$state/guest.yaml" <<PLAN
run: guest
repo: $repo
gate: none
sandbox: off
workers: 4
tasks:
  - {id: long, command: 'echo \$\$ > $state/long.pid; until [ -e $state/end ]; do sleep 0.5; done; echo done > long.txt', allowed_files: [long.txt], timeout: 30m}
  - {id: hog, command: 'exec node -e "const all = []; for (;;) all.push(Buffer.alloc(4e6, 1))"', allowed_files: [a], limits: {memory: 96M}, retries: 0}
  - {id: bomb, command: 'b() { b | b & }; b; exit 7', allowed_files: [a], limits: {pids: 40}, retries: 0}
  - {id: flees, command: '(setsid env -i sh -c "setsid sleep 4444 & exec sleep 4444" > /dev/null 2>&1 < /dev/null &) ; until pgrep -f "^sleep 4444" > /dev/null; do sleep 0.1; done; echo ok > flees.txt', allowed_files: [flees.txt]}
PLAN
chown busbar: "$state/guest.yaml"
need "a plan is taken" busctl run "$state/guest.yaml" --detach
need "the long agent works" long_lives
long=$(long_pid)
check "its shim is a unit of its own, in the slice of all tasks" grep -q 'busbar-tasks.slice/busbar-shim@' "/proc/$long/cgroup"
check "the hog died of memory" task hog '"memory"'
check "the bomb died of its limit of processes" task bomb '"pids"'
check "the one who flees landed" task flees '"merged"'
check "nothing of it is left" none pgrep -f "^sleep 4444"

# Restarts under the running agent
check "restart of the bus" systemctl restart "$bus"
check "the agent goes on" long_goes_on
check "restart of the scheduler" systemctl restart "$scheduler"
check "the agent goes on" long_goes_on
kill_and_see "$bus" "kill -9 of the bus: it comes back"
check "the agent goes on" long_goes_on
kill_and_see "$scheduler" "kill -9 of the scheduler: it comes back"
check "the agent goes on" long_goes_on
check "upgrade under the running agent" new/scripts/install upgrade
check "the new release is in force" is_current "$(basename "$(ls -d "$prefix"/releases/*-new)")"
check "bus and scheduler are active" active "$bus" "$scheduler"
check "the agent goes on" long_goes_on
check "the bus answers" registered
touch "$state/end"
check "the agent's work lands" task long '"merged"'
check "its unit has ended" no_shims
check "the audit log is whole" busctl verify

# A shim that is killed takes all with it
cat >"$state/again.yaml" <<PLAN
run: again
repo: $repo
gate: none
sandbox: required
tasks:
  - {id: sleeps, command: 'exec sleep 4445', allowed_files: [a], retries: 0}
PLAN
chown busbar: "$state/again.yaml"
need "another plan is taken" busctl run "$state/again.yaml" --detach
check "its agent works, in a sandbox" pgrep -f '^sleep 4445'
kill -KILL "$(main_pid "$(shim_units | head -n 1)")"
check "kill -9 of a shim: systemd ends what it stood round" none pgrep -f '^sleep 4445'

# busctl starts no service
systemctl stop "$scheduler" "$bus"
as "$prefix/bin/busctl" up >/tmp/up 2>&1
check "busctl up starts no bus beside a service that was stopped, and says who can" grep -q "systemctl start 'busbar-bus@" /tmp/up

# Away
check "start again" systemctl start "$bus"
check "remove" "$prefix/current/scripts/install" remove
check "nobody of busbar runs" none pgrep -f "$prefix"
check "nothing is left" gone "$prefix" "$state" /run/busbar /etc/systemd/system/busbar* /etc/systemd/system/*.wants/busbar* /etc/tmpfiles.d/busbar.conf
check "no unit is left" test -z "$(systemctl list-units --all --plain --no-legend 'busbar*')"
check "the user is gone" none id busbar
finish
