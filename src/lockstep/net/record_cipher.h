#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Encrypts, or decrypts, the records of one direction of a connection by AES-256-GCM (NIST SP 800-38D). A record's
/// nonce is its number, so a record that was changed, left out, repeated or moved does not open. After
/// `records_per_key` records both sides derive the next key from the last one, so that no key meets GCM's limits, and
/// no nonce meets a key twice.
class RecordCipher {
 public:
  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 20;
  enum class Direction { Seal, Open };

  /// @param key  32 bytes that no other direction of any connection has
  RecordCipher(Direction direction, std::string key, std::uint64_t records_per_key = kRecordsPerKey);
  RecordCipher(RecordCipher&&) noexcept;
  RecordCipher& operator=(RecordCipher&&) noexcept;
  ~RecordCipher();

  /// Writes the parts, encrypted, and a tag of kTagBytes to `out`. @param header  is sent as it is, and proven too
  void seal(std::string_view header, const iovec* parts, std::size_t count, char* out);
  /// Writes what `sealed` holds, without its tag, to `out`, which may be the memory of `sealed`.
  /// @param sealed  at least kTagBytes
  /// @return  false if this is not the next record of the other side: then `out` holds nothing of use
  bool open(std::string_view header, std::string_view sealed, char* out);

 private:
  struct Context;
  void begin_record();
  void use_key();

  std::unique_ptr<Context> context_;
  std::string key_;
  std::uint64_t records_per_key_;
  std::uint64_t number_ = 0;  // of the next record of this key
};

}  // namespace lockstep
