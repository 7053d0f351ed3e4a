#include "tools/hosts/network_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "tools/frame/shell.h"
#include "tools/hosts/namespace_guard.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const char* const kSpaces = "/run/netns";
const char* const kMark = "lockstep-hosts-";

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

// Runs a command line without quoting. @return  what it wrote; nothing if it succeeded
std::optional<std::string> failure_of(const std::string& line) {
  const auto [code, text] = run_shell(line + " 2>&1");
  if (code == 0) return std::nullopt;
  return line + ": " + (text.empty() ? "failed" : text.substr(0, text.find('\n')));
}

void must(const std::string& line) {
  if (const auto failure = failure_of(line)) {
    throw Error(*failure, "making hosts of network namespaces", "check that this user may run ip and tc");
  }
}

// The namespaces whose name begins with `prefix`.
std::vector<std::string> spaces_with(const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(kSpaces, none)) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) found.push_back(entry.path().filename());
  }
  return found;
}

void remove_spaces(const std::string& prefix) {
  for (const std::string& space : spaces_with(prefix)) failure_of("ip netns delete " + space);
}

// What programs left that were killed: their names carry the number of a process that is no more.
void remove_leftovers() {
  for (const std::string& space : spaces_with(kMark)) {
    const pid_t owner = std::atoi(space.c_str() + std::string(kMark).size());
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) failure_of("ip netns delete " + space);
  }
}

}  // namespace

std::optional<std::string> NetworkHosts::why_not() {
  if (::access("/usr/sbin/ip", X_OK) != 0 && ::access("/sbin/ip", X_OK) != 0 && ::access("/usr/bin/ip", X_OK) != 0) {
    return "hosts made of network namespaces need the commands ip and tc (package iproute2)";
  }
  remove_leftovers();
  const std::string probe = kMark + std::to_string(::getpid()) + "-probe";
  auto failure = failure_of("ip netns add " + probe);
  if (!failure) failure = failure_of("ip -n " + probe + " link add probe0 type veth peer name probe1");
  if (!failure)
    failure = failure_of("tc -n " + probe + " qdisc add dev probe0 root tbf rate 1gbit burst 256kb latency 50ms");
  remove_spaces(probe);
  if (failure) return "this user may not make network namespaces, which root usually may: " + *failure;
  return std::nullopt;
}

NetworkHosts::NetworkHosts(int count, const std::string& rate) : count_(count) {
  static int made = 0;
  prefix_ = kMark + std::to_string(::getpid()) + "-" + std::to_string(made++) + "-";
  // A bucket holds what a fast link sends between two looks of the kernel, and a whole segment of a slow one.
  const std::string shape = " root tbf rate " + rate + " burst 256kb latency 50ms";
  guard_ = std::make_unique<NamespaceGuard>(prefix_);
  try {
    must("ip netns add " + bridge());
    must("ip -n " + bridge() + " link add br0 type bridge");
    must("ip -n " + bridge() + " link set br0 up");
    for (int host = 0; host < count_; ++host) {
      const std::string port = "port" + std::to_string(host);
      must("ip netns add " + space(host));
      must("ip -n " + space(host) + " link add eth0 type veth peer name " + port + " netns " + bridge());
      must("ip -n " + bridge() + " link set " + port + " master br0 up");
      must("ip -n " + space(host) + " addr add " + address(host) + "/24 dev eth0");
      must("ip -n " + space(host) + " link set eth0 up");
      must("ip -n " + space(host) + " link set lo up");
      must("tc -n " + space(host) + " qdisc add dev eth0" + shape);
      must("tc -n " + bridge() + " qdisc add dev " + port + shape);
    }
  } catch (...) {
    guard_.reset();
    throw;
  }
}

NetworkHosts::~NetworkHosts() {
  guard_.reset();
  remove_spaces(prefix_);  // if somebody has killed the guard
}

std::string NetworkHosts::name(int host) const { return std::string("host-") + static_cast<char>('a' + host); }
std::string NetworkHosts::address(int host) const { return "10.77.0." + std::to_string(host + 1); }
std::string NetworkHosts::space(int host) const { return prefix_ + std::to_string(host); }
std::string NetworkHosts::bridge() const { return prefix_ + "bridge"; }

std::vector<std::string> NetworkHosts::on(int host, const std::vector<std::string>& command) const {
  // Every part replaces the one before, so that signals reach the command itself.
  std::vector<std::string> all = words("ip netns exec " + space(host) + " unshare --uts sh -c");
  all.insert(all.end(), {"echo " + name(host) + " > /proc/sys/kernel/hostname && exec \"$@\"", "sh"});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

void NetworkHosts::enter(int host) const {
  const UniqueFd fd(::open((std::string(kSpaces) + "/" + space(host)).c_str(), O_RDONLY | O_CLOEXEC));
  const std::string own = name(host);
  if (!fd || ::setns(fd.get(), CLONE_NEWNET) != 0 || ::unshare(CLONE_NEWUTS) != 0 ||
      ::sethostname(own.data(), own.size()) != 0) {
    throw Error("cannot enter " + space(host) + ": " + errno_text(errno), "making hosts of network namespaces",
                "check that this user may enter network namespaces");
  }
  guard_->forget();
  // What names an interface of the machine means nothing here.
  ::unsetenv("LOCKSTEP_GLOO_INTERFACE");
  ::unsetenv("GLOO_SOCKET_IFNAME");
}

void NetworkHosts::set_link(int host, bool up) const {
  must("ip -n " + bridge() + " link set port" + std::to_string(host) + (up ? " up" : " down"));
}

}  // namespace lockstep
