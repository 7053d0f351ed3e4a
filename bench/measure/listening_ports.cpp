#include "bench/measure/listening_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

void add_descendants(pid_t process, std::set<pid_t>& all) {
  if (!all.insert(process).second) return;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) add_descendants(child, all);
  }
}

// Adds the sockets' inodes, as the kernel numbers them.
void add_inodes(pid_t process, std::set<std::string>& inodes) {
  const std::string prefix = "socket:[";
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), gone)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(file, closed).string();
    if (target.rfind(prefix, 0) == 0) inodes.insert(target.substr(prefix.size(), target.size() - prefix.size() - 1));
  }
}

// From "0100007F:1F90", whose address is in words of this machine's byte order.
SocketAddress address_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; 8 * i < colon; ++i) {
    words[i] = static_cast<std::uint32_t>(std::strtoul(text.substr(8 * i, 8).c_str(), nullptr, 16));
  }
  std::array<char, INET6_ADDRSTRLEN> host{};
  ::inet_ntop(colon == 8 ? AF_INET : AF_INET6, words.data(), host.data(), host.size());
  return SocketAddress::tcp(host.data(),
                            static_cast<std::uint16_t>(std::strtoul(text.c_str() + colon + 1, nullptr, 16)));
}

}  // namespace

std::vector<SocketAddress> listening_ports(const std::vector<pid_t>& roots) {
  std::set<pid_t> processes;
  for (const pid_t root : roots) add_descendants(root, processes);
  std::set<std::string> inodes;
  for (const pid_t process : processes) add_inodes(process, inodes);
  std::vector<SocketAddress> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // names of columns
    while (std::getline(file, line)) {
      std::istringstream columns(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      columns >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      constexpr const char* kListens = "0A";
      if (state == kListens && inodes.count(inode) > 0) ports.push_back(address_of(local));
    }
  }
  return ports;
}

}  // namespace lockstep
