#include "lockstep/checkpoint/files/manifest.h"

#include <nlohmann/json.hpp>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"

namespace lockstep::fuzz {
namespace {

void check_manifest(const std::string& text) {
  const std::string written = manifest_json(parse_manifest(text, kManifestFile));
  LOCKSTEP_HOLDS(manifest_json(parse_manifest(written, kManifestFile)) == written);
}

}  // namespace

// As it is; then with the right checksum, so that changes reach the parser behind it.
void run_manifest(std::string_view bytes) {
  try {
    check_manifest(std::string(bytes));
  } catch (const Error&) {
    nlohmann::json json = nlohmann::json::parse(bytes, nullptr, false);
    if (!json.is_object()) return;
    json.erase("sha256");
    json["sha256"] = sha256_hex(json.dump());
    check_manifest(json.dump());
  }
}

}  // namespace lockstep::fuzz
