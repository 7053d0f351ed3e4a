#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The keys of an encrypted connection, as one of its ends uses them.
struct StreamKeys {
  std::string send;
  std::string receive;
};

/// The bytes that two ranks send each other once they have proven who they are, in clear or encrypted. No call waits.
/// One thread at a time sends, and one receives.
///
/// Encrypted bytes travel in records of at most 64 KiB, which stay in the processor's cache while they are worked on:
/// length (32 bits, little-endian), encrypted bytes, tag. A record's bytes are handed on once its tag was checked.
class PeerStream {
 public:
  static constexpr std::size_t kRecordBytes = std::size_t{64} << 10;

  PeerStream();                                     ///< no connection
  PeerStream(UniqueFd fd);                          ///< in clear
  PeerStream(UniqueFd fd, const StreamKeys& keys);  ///< encrypted
  PeerStream(PeerStream&&) noexcept;
  PeerStream& operator=(PeerStream&&) noexcept;
  ~PeerStream();

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }

  /// Takes what it can of the parts, as sendmsg(2) does. @return  bytes taken, or -1 and errno: EAGAIN if it can take
  /// none now. What was taken may wait here until `flush`.
  ssize_t send(const iovec* parts, std::size_t count);
  /// Sends what waits here. @return  whether bytes still wait, until the socket takes more; if the connection broke,
  /// the next `send` finds that
  bool flush();
  /// Fills the parts as far as bytes have arrived, as readv(2) does: 0 bytes if the other side has ended the
  /// connection, -1 and errno if nothing is there (EAGAIN) or the connection broke. EBADMSG: what arrived is not what
  /// the other side sent.
  /// @param from_socket  false: only bytes that are here already (see `holds_bytes`)
  ssize_t receive(const iovec* parts, std::size_t count, bool from_socket = true);
  /// Whether bytes have arrived here that `receive` has not handed out, and that no poll(2) announces.
  bool holds_bytes() const;

  /// What `code`, an errno of `receive`, says of the connection.
  static std::string text_of(int code);

 private:
  struct Encryption;
  UniqueFd fd_;
  std::unique_ptr<Encryption> encryption_;
};

}  // namespace lockstep
