#include "lockstep/base/files/sha256.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {
namespace {

void require_openssl(bool holds) {
  if (!holds) throw Error("OpenSSL has no SHA-256", "Sha256", "check the installation of OpenSSL");
}

}  // namespace

struct Sha256::Context {
  Context() : digest(EVP_MD_CTX_new()) {}
  ~Context() { EVP_MD_CTX_free(digest); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require_openssl(context_->digest != nullptr);
  require_openssl(EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) {
  require_openssl(EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) == 1);
}

void Sha256::update_sized(std::string_view bytes) {
  update_number(static_cast<std::int64_t>(bytes.size()));
  update(bytes);
}

void Sha256::update_number(std::int64_t number) {
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xff);
  }
  update({bytes.data(), bytes.size()});
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  require_openssl(EVP_DigestFinal_ex(context_->digest, digest.data(), &size) == 1);
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

std::string sha256_of_file(const std::string& path, const std::string& fix) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw Error("cannot open " + path + ": " + errno_text(errno), path, fix);
  Sha256 digest;
  std::vector<char> block(1 << 18);
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error("cannot read " + path + ": " + errno_text(errno), path, fix);
    if (got == 0) return digest.hex();
    digest.update({block.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace lockstep
