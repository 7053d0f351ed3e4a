#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class NamespaceGuard;

/// Hosts for trials: network namespaces of this machine, each with a host name of its own, an interface eth0 and an
/// address, joined by a bridge. Both directions of each link are held to a rate by a token bucket. Nothing else is
/// reachable from them, and nothing of them from elsewhere. Unix sockets and files are those of the machine.
///
/// Removed with the object, with all that still runs there; also if a signal ends this program, or kills it.
class NetworkHosts {
 public:
  /// Why this process may not make hosts here, in one line; nothing if it may.
  static std::optional<std::string> why_not();

  /// @param count  2 to 26
  /// @param rate   of each link and direction, as tc writes it: "100mbit", "1gbit", "10gbit"
  /// @throws Error  with what the system said
  NetworkHosts(int count, const std::string& rate);
  ~NetworkHosts();
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;

  int count() const { return count_; }
  std::string name(int host) const;     ///< host name: "host-a", "host-b", ...
  std::string address(int host) const;  ///< of its eth0
  /// The command, to be run on that host.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  /// Moves the calling thread, which must be the only one of its process, to that host for good. The process is a copy,
  /// made by fork, of the one that has made the hosts.
  void enter(int host) const;
  /// Takes the link of a host down, or up again: what is on its way is lost, and no connection ends.
  void set_link(int host, bool up) const;

 private:
  std::string space(int host) const;  // name of the namespace
  std::string bridge() const;

  int count_;
  std::string prefix_;
  std::unique_ptr<NamespaceGuard> guard_;
};

}  // namespace lockstep
