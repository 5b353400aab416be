// What an agent may try to get out of its attempt, one line of shell each: exit code 0 says that it got through. Where that
// cannot be seen from inside, `seen` looks from outside. All of it aims at things that the test has made (escape.test.ts), and
// does no harm where it gets through. SECURITY.md lists from here what is not held without a sandbox.

import { statSync } from "node:fs";
import { join } from "node:path";
import { connect, daemon, type Escape, libc, python, runs } from "./escape-kit.ts";
import { FILES } from "./escapes-files.ts";

const OURS: Escape[] = [
  {
    name: "sibling-read",
    can: "read the workspaces of others",
    open: "always",
    script: 'cat "$STATE"/*/runs/*/*-victim-*/./work/private',
  },
  {
    name: "sibling-write",
    can: "write into the workspaces of others",
    open: "always",
    script: 'set -e; for w in "$STATE"/*/runs/*/*-victim-*/work; do echo x > "$w/planted"; done',
  },
  {
    name: "sibling-env",
    can: "read the environment of other attempts",
    open: "always",
    script: "grep -qsa VICTIM_WORD=hidden /proc/[0-9]*/environ",
  },
  {
    name: "host-env",
    can: "read the environment of your processes",
    open: "always",
    script: 'grep -qsa HOST_SECRET=hidden "/proc/$HOST_PID/environ"',
  },
  {
    name: "own-env",
    can: "find in its own environment what was not passed",
    open: "never",
    script: "env | grep -q SCHEDULER_SECRET",
  },
  {
    name: "state-key",
    can: "read the key of the audit log",
    open: "always",
    script: 'cat "$STATE"/*/bus/key',
  },
  {
    name: "journal-write",
    can: "open the audit log for writing",
    open: "always",
    script: 'exec 3>> "$(ls "$STATE"/*/bus/journal/*.jsonl | tail -1)"',
  },
  { name: "own-outbox", can: "write its own outcome", open: "always", script: "echo x > ../planted.json" },
  { name: "own-log", can: "change its own log", open: "always", script: "exec 3>> ../agent.log" },
  {
    name: "tokens",
    can: "read the tokens of persons",
    open: "always",
    script: 'cat "$RUNTIME"/busbar-*/*/tokens/person',
  },
  {
    name: "control-socket",
    can: "reach the control socket",
    open: "always",
    script: `cd "$RUNTIME"/busbar-*/*/ && ${connect("AF_UNIX", '"bus.sock"')}`,
  },
  {
    name: "other-task-socket",
    can: "speak as another task through its socket",
    open: "always",
    script: `cd "$(dirname "$BUSBAR_SOCKET")" && for s in *; do [ "$s" = "$(basename "$BUSBAR_SOCKET")" ] || { S=$s ${connect("AF_UNIX", 'os.environ["S"]')}; exit; }; done; exit 1`,
  },
  {
    name: "read-other-task",
    can: "read tasks that it does not depend on",
    open: "never",
    script: 'busbar-call get_task \'{"run":"v","task":"victim"}\'',
  },
  {
    name: "end-the-bus",
    can: "end the bus through its own socket",
    open: "never",
    script: "busbar-call shutdown '{}'",
  },
  {
    name: "cancel-others",
    can: "cancel tasks through its own socket",
    open: "never",
    script: 'busbar-call cancel \'{"run":"v","task":"victim"}\'',
  },
];

const PROCESSES: Escape[] = [
  {
    name: "see-processes",
    can: "see your processes",
    open: "always",
    script: 'grep -qa "$WORD" "/proc/$HOST_PID/cmdline"',
  },
  {
    name: "signal",
    can: "send signals to your processes",
    open: "always",
    script: 'grep -qa "$WORD" "/proc/$HOST_PID/cmdline" && kill -0 "$HOST_PID"',
  },
  {
    name: "ptrace",
    can: "take over your processes by ptrace",
    open: "perhaps",
    script: python(
      `${libc}; p=int(os.environ["HOST_PID"]); r=l.ptrace(16,p,0,0); r or (os.waitpid(p,0x40000000), l.ptrace(17,p,0,0)); exit(r!=0)`,
    ),
  },
  {
    name: "daemon",
    can: "leave a daemon behind",
    open: "never",
    script: daemon("daemon-", "setsid -f"),
    seen: runs("daemon-"),
  },
  {
    name: "nohup",
    can: "leave a process behind by nohup",
    open: "never",
    script: daemon("nohup-", "nohup"),
    seen: runs("nohup-"),
  },
  {
    name: "hidden-daemon",
    can: "leave a daemon behind that has cleaned its environment",
    open: "ungrouped",
    script: daemon("hidden-", 'setsid -f env -i PATH="$PATH" setsid -f'),
    seen: runs("hidden-"),
  },
  {
    name: "set-uid",
    can: "become another user",
    open: "root",
    script: python("import os; os.setuid(65534)"),
  },
  {
    name: "chown",
    can: "give files to other users",
    open: "root",
    script: `echo x > mine; ${python('import os; os.chown("mine", 65534, 65534)')}; r=$?; rm -f mine; exit $r`,
  },
  { name: "chroot", can: "change its root", open: "root", script: python('import os; os.chroot(".")') },
  {
    name: "mount",
    can: "mount file systems",
    open: "root",
    script: "mkdir -p m && mount -t tmpfs none m && umount m; r=$?; rmdir m; exit $r",
  },
  {
    name: "user-namespace",
    can: "make a user namespace, and be root in it",
    open: "perhaps",
    script: "unshare -Ur true",
  },
  {
    name: "join-namespace",
    can: "enter the namespaces of your processes",
    open: "root",
    script: 'nsenter -t "$HOST_PID" -m -i -u true',
  },
  {
    name: "make-device",
    can: "make device files",
    open: "root",
    script: "mknod dev b 254 0; r=$?; rm -f dev; exit $r",
  },
  {
    name: "kernel-setting",
    can: "change settings of the kernel",
    open: "root",
    script: "v=$(cat /proc/sys/vm/swappiness) && echo $v > /proc/sys/vm/swappiness",
  },
  {
    name: "host-name",
    can: "change the name of the host",
    open: "root",
    script: python("import socket; socket.sethostname(socket.gethostname())"),
  },
  { name: "raise-limit", can: "raise its limit of open files", open: "root", script: "ulimit -Hn 4096" },
  { name: "priority", can: "run before all others", open: "root", script: python("import os; os.nice(-1)") },
  {
    name: "memory-priority",
    can: "be spared when memory is short",
    open: "root",
    script: "echo -1 > /proc/self/oom_score_adj",
  },
  {
    name: "see-groups",
    can: "see the control groups of the host",
    open: "always",
    script: "ls /sys/fs/cgroup/*",
  },
  {
    name: "own-group",
    can: "leave its control group",
    open: "root",
    script:
      'for d in /sys/fs/cgroup/unified /sys/fs/cgroup; do g=$(sed -n "s/^0:://p" /proc/self/cgroup); [ -w "$d$g/../cgroup.procs" ] && exit 0; done; exit 1',
  },
  {
    name: "supervisor",
    can: "write to the program of its supervisor",
    open: "never",
    script: ": >> /proc/1/exe",
  },
];

const NETWORK: Escape[] = [
  {
    name: "localhost",
    can: "reach services on localhost",
    open: "always",
    script: connect("AF_INET", '("127.0.0.1", int(os.environ["LOCAL_PORT"]))'),
  },
  {
    name: "network",
    can: "reach the network",
    open: "perhaps",
    script: python('import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).connect(("192.0.2.1", 9))'),
  },
  {
    name: "service-socket",
    can: "reach sockets in the file system",
    open: "always",
    script: `cd "$OUT" && ${connect("AF_UNIX", '"service.sock"')}`,
  },
  {
    name: "abstract-socket",
    can: "reach abstract sockets",
    open: "always",
    script: connect("AF_UNIX", '"\\0"+os.environ["WORD"]'),
  },
  {
    name: "raw-socket",
    can: "listen to what others send",
    open: "root",
    script: python("import socket as s; s.socket(s.AF_PACKET, s.SOCK_RAW)"),
  },
  {
    name: "low-port",
    can: "open a port below 1024",
    open: "root",
    script: python('import socket as s; s.socket().bind(("127.0.0.1", 1))'),
  },
];

const FILLING: Escape[] = [
  {
    name: "open-files",
    can: "open more files than its limit",
    open: "never",
    script: python("import os; [os.dup(1) for i in range(600)]"),
  },
  {
    name: "file-size",
    can: "write a larger file than its limit",
    open: "never",
    script: "head -c 30000000 /dev/zero > big; r=$?; rm -f big; exit $r",
  },
  {
    name: "log-flood",
    can: "fill the disk with its log",
    open: "never",
    script: "head -c 40000000 /dev/zero | tr '\\0' x",
    seen: (_targets, attempt) => statSync(join(attempt, "agent.log")).size > 10_000_000,
  },
];

export const ESCAPES: readonly Escape[] = [...FILES, ...OURS, ...PROCESSES, ...NETWORK, ...FILLING];
