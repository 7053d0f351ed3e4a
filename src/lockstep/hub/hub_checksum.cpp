#include "lockstep/hub/hub_checksum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/hub/whole_file.h"

namespace lockstep {
namespace {

// Git's name of a file with this content. It finds damage; whoever can forge SHA-1 can also change what the Hub says.
std::string git_blob_sha1(std::string_view content) {
  const std::string header = fmt::format("blob {}", content.size());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const bool works = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr) == 1 &&
                     EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1) == 1 &&
                     EVP_DigestUpdate(context.get(), content.data(), content.size()) == 1 &&
                     EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  if (!works) throw Error("OpenSSL has no SHA-1", "git_blob_sha1", "check the installation of OpenSSL");
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

std::string compared(const char* kind, const std::string& got, const std::string& expected) {
  return got == expected ? "" : fmt::format("its {} is {}, but {} on the Hub", kind, got, expected);
}

}  // namespace

std::string difference_from(const HubFile& file, const std::string& path) {
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  if (bytes != file.bytes) return fmt::format("it has {} bytes, but {} on the Hub", bytes, file.bytes);
  const WholeFile content(path);
  if (!file.sha256.empty()) return compared("SHA-256", sha256_hex(content.view()), file.sha256);
  if (!file.git_sha1.empty()) return compared("SHA-1 as a git blob", git_blob_sha1(content.view()), file.git_sha1);
  return "";
}

}  // namespace lockstep
