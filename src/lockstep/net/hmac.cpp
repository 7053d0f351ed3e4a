#include "lockstep/net/hmac.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

void require(bool fine, const char* call) {
  if (!fine) {
    throw Error(std::string("OpenSSL's ") + call + " failed", "authentication of the store's connections",
                "check that the OpenSSL 3 libraries of this host are complete and offer SHA-256");
  }
}

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

struct FreeContext {
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};
using MacContext = std::unique_ptr<EVP_MAC_CTX, FreeContext>;

MacContext keyed_context(std::string_view key) {
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);  // lives as long as the process
  require(hmac != nullptr, "EVP_MAC_fetch");
  MacContext context(EVP_MAC_CTX_new(hmac));
  require(context != nullptr, "EVP_MAC_CTX_new");
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                   OSSL_PARAM_construct_end()};
  require(EVP_MAC_init(context.get(), bytes_of(key), key.size(), parameters) == 1, "EVP_MAC_init");
  return context;
}

std::string finish(EVP_MAC_CTX* context) {
  std::string digest(kDigestBytes, '\0');
  std::size_t length = 0;
  require(EVP_MAC_final(context, reinterpret_cast<unsigned char*>(digest.data()), &length, digest.size()) == 1 &&
              length == kDigestBytes,
          "EVP_MAC_final");
  return digest;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  const MacContext context = keyed_context(key);
  for (const std::string_view part : parts) {
    require(EVP_MAC_update(context.get(), bytes_of(part), part.size()) == 1, "EVP_MAC_update");
  }
  return finish(context.get());
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  require(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1, "RAND_bytes");
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

struct FrameMac::Context {
  MacContext mac;
};

FrameMac::FrameMac(std::string_view key) : context_(new Context{keyed_context(key)}) {}
FrameMac::FrameMac(FrameMac&&) noexcept = default;
FrameMac& FrameMac::operator=(FrameMac&&) noexcept = default;
FrameMac::~FrameMac() = default;

std::string FrameMac::next_tag(std::string_view header, std::string_view body) {
  WireWriter number;
  number.u64(sequence_++);
  EVP_MAC_CTX* const context = context_->mac.get();
  require(EVP_MAC_init(context, nullptr, 0, nullptr) == 1, "EVP_MAC_init");  // again with the same key
  for (const std::string_view part : {std::string_view(number.bytes()), header, body}) {
    require(EVP_MAC_update(context, bytes_of(part), part.size()) == 1, "EVP_MAC_update");
  }
  return finish(context);
}

}  // namespace lockstep
