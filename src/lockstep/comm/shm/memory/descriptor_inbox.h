#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/home_process.h"

namespace lockstep::shm {

/// Proves that what arrives is from a member of the group: random, sent over the authenticated store.
using Token = std::array<std::uint64_t, 2>;

/// The label of a descriptor: no rank uses one twice for one inbox.
struct Label {
  Token token{};
  std::uint64_t number = 0;
  friend bool operator<(const Label& a, const Label& b) {
    return std::tie(a.token, a.number) < std::tie(b.token, b.number);
  }
};

/// Receives descriptors from other ranks of the host, whatever this rank is doing: a listening Unix socket in the
/// folder that only this user can enter, so that nobody else can fill its queue. A sender needs no answer, so no thread
/// serves it. Only processes of this user are accepted, and only letters with a requested label are kept.
///
/// The socket's file ends with the object; what a killed process leaves is removed by the next inbox in the folder.
/// Thread-safe.
class DescriptorInbox {
 public:
  /// @throws Error  if no socket can be made
  DescriptorInbox();
  ~DescriptorInbox();
  DescriptorInbox(const DescriptorInbox&) = delete;
  DescriptorInbox& operator=(const DescriptorInbox&) = delete;

  /// Random: unique on the host.
  std::uint64_t name() const { return name_; }
  /// The descriptor sent under `label`; empty if it has not arrived after `patience`.
  /// @throws Error  if the process has no descriptors left
  UniqueFd take(const Label& label, std::chrono::milliseconds patience);

 private:
  void accept_senders();
  void read_letters();

  const HomeProcess home_;
  const std::uint64_t name_;
  const std::string path_;
  UniqueFd socket_;
  std::mutex mutex_;
  std::vector<UniqueFd> senders_;  // connected; their letters may not have arrived yet
  std::map<Label, UniqueFd> letters_;
};

/// Where the inbox with a name listens.
/// @throws Error  if this user's folder for sockets cannot be used (see private_runtime_folder)
std::string inbox_path(std::uint64_t name);

/// The folder of all inboxes, with its identity: ranks that have another one cannot send to this process.
/// @throws Error  as inbox_path does
std::string inbox_folder();

/// Sends `fd` to the inbox with the name `inbox`. It has arrived when this returns, and lives even if `fd` is closed
/// here.
/// @return  false if no process of this user listens there any more
/// @throws Error  with the cause
/// @throws TimeoutError  if the inbox's queue stays full until the deadline
bool send_descriptor(std::uint64_t inbox, const Label& label, int fd, Deadline deadline);

}  // namespace lockstep::shm
