#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// SHA-256 (FIPS 180-4) of bytes that arrive in pieces. Not thread-safe.
class Sha256 {
 public:
  /// @throws Error  if OpenSSL has no SHA-256
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  /// Appends `bytes`.
  void update(std::string_view bytes);
  /// Appends `bytes` after their length, so that ("ab", "c") and ("a", "bc") differ.
  void update_sized(std::string_view bytes);
  void update_number(std::int64_t number);

  /// The digest of everything so far, as 64 hexadecimal digits. The object cannot be used after that.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// SHA-256 of `bytes` as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// SHA-256 of a file's bytes, as 64 hexadecimal digits.
/// @param fix  of the Error, if the file cannot be read
std::string sha256_of_file(const std::string& path, const std::string& fix);

}  // namespace lockstep
