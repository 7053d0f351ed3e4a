#include "lockstep/net/record_cipher.h"

#include <openssl/evp.h>

#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/hmac.h"

namespace lockstep {
namespace {

constexpr std::size_t kRecordNonceBytes = 12;

void require_cipher(bool fine, const char* call) {
  if (!fine) {
    throw Error(std::string("OpenSSL's ") + call + " failed", "encryption of the job's connections",
                "check that the OpenSSL 3 libraries of this host are complete and offer AES-256-GCM");
  }
}

unsigned char* bytes_at(char* place) { return reinterpret_cast<unsigned char*>(place); }

struct FreeCipherContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

}  // namespace

struct RecordCipher::Context {
  bool seals;
  std::unique_ptr<EVP_CIPHER_CTX, FreeCipherContext> cipher;

  void update(const void* in, std::size_t bytes, char* out) {
    int length = 0;
    require_cipher(EVP_CipherUpdate(cipher.get(), out == nullptr ? nullptr : bytes_at(out), &length,
                                    static_cast<const unsigned char*>(in), static_cast<int>(bytes)) == 1,
                   "EVP_CipherUpdate");
  }
  bool finish() {
    std::array<unsigned char, 16> none;  // GCM has no last block
    int length = 0;
    return EVP_CipherFinal_ex(cipher.get(), none.data(), &length) == 1;
  }
};

RecordCipher::RecordCipher(Direction direction, std::string key, std::uint64_t records_per_key)
    : context_(new Context{direction == Direction::Seal, nullptr}),
      key_(std::move(key)),
      records_per_key_(records_per_key) {
  static EVP_CIPHER* const aes = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);  // lives as long as the process
  require_cipher(aes != nullptr, "EVP_CIPHER_fetch");
  context_->cipher.reset(EVP_CIPHER_CTX_new());
  require_cipher(context_->cipher != nullptr && EVP_CipherInit_ex2(context_->cipher.get(), aes, nullptr, nullptr,
                                                                   context_->seals ? 1 : 0, nullptr) == 1,
                 "EVP_CipherInit_ex2");
  use_key();
}

RecordCipher::RecordCipher(RecordCipher&&) noexcept = default;
RecordCipher& RecordCipher::operator=(RecordCipher&&) noexcept = default;
RecordCipher::~RecordCipher() = default;

void RecordCipher::use_key() {
  require_cipher(key_.size() == kDigestBytes && EVP_CipherInit_ex2(context_->cipher.get(), nullptr,
                                                                   bytes_at(key_.data()), nullptr, -1, nullptr) == 1,
                 "EVP_CipherInit_ex2");
}

void RecordCipher::begin_record() {
  if (number_ == records_per_key_) {
    key_ = hmac_sha256(key_, {"lockstep records: next key"});
    number_ = 0;
    use_key();
  }
  std::array<unsigned char, kRecordNonceBytes> nonce{};
  for (std::size_t i = 0; i < sizeof(number_); ++i) nonce[i] = static_cast<unsigned char>(number_ >> (8 * i));
  ++number_;
  require_cipher(EVP_CipherInit_ex2(context_->cipher.get(), nullptr, nullptr, nonce.data(), -1, nullptr) == 1,
                 "EVP_CipherInit_ex2");
}

void RecordCipher::seal(std::string_view header, const iovec* parts, std::size_t count, char* out) {
  begin_record();
  context_->update(header.data(), header.size(), nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    context_->update(parts[i].iov_base, parts[i].iov_len, out);
    out += parts[i].iov_len;
  }
  require_cipher(context_->finish() && EVP_CIPHER_CTX_ctrl(context_->cipher.get(), EVP_CTRL_AEAD_GET_TAG,
                                                           static_cast<int>(kTagBytes), out) == 1,
                 "EVP_CipherFinal_ex");
}

bool RecordCipher::open(std::string_view header, std::string_view sealed, char* out) {
  begin_record();
  std::array<char, kTagBytes> tag;
  const std::size_t bytes = sealed.size() - kTagBytes;
  sealed.copy(tag.data(), kTagBytes, bytes);
  context_->update(header.data(), header.size(), nullptr);
  if (bytes > 0) context_->update(sealed.data(), bytes, out);
  require_cipher(
      EVP_CIPHER_CTX_ctrl(context_->cipher.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(kTagBytes), tag.data()) == 1,
      "EVP_CIPHER_CTX_ctrl");
  return context_->finish();
}

}  // namespace lockstep
