#include "lockstep/hub/hub_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/hub/hub_refusal.h"
#include "lockstep/hub/web_request.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 45;  // 32 TiB

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_name_part(const std::string& part) {
  constexpr std::size_t kLongest = 96;
  const auto fits = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  const auto is_edge = [](char c) { return is_letter_or_digit(c) || c == '_'; };
  return !part.empty() && part.size() <= kLongest && std::all_of(part.begin(), part.end(), fits) &&
         is_edge(part.front()) && is_edge(part.back());
}

// `text` as one part of an address, or with its slashes as several.
std::string url_encoded(const std::string& text, bool keeps_slashes) {
  std::string url;
  for (const char c : text) {
    const bool is_plain = is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '~';
    if (is_plain || (c == '/' && keeps_slashes)) {
      url += c;
    } else {
      url += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return url;
}

bool is_hexadecimal(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

[[noreturn]] void refuse_answer(const std::string& url, const std::string& problem) {
  throw Error("the answer is not from the Hub: " + problem, url,
              "check HF_ENDPOINT, and whether something between this machine and the Hub answers in its place");
}

std::string text_at(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t size_at(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<std::int64_t>() : -1;
}

HubFile read_file_entry(const nlohmann::json& entry, const std::string& url) {
  if (!entry.is_object()) refuse_answer(url, "an entry of \"siblings\" is not an object");
  HubFile file;
  file.name = text_at(entry, "rfilename");
  file.bytes = size_at(entry, "size");
  file.git_sha1 = text_at(entry, "blobId");
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_at(*lfs, "sha256");
    file.bytes = size_at(*lfs, "size");
    if (!is_hexadecimal(file.sha256, 64)) refuse_answer(url, "no SHA-256 of " + printable(file.name));
  } else if (!is_hexadecimal(file.git_sha1, 40)) {
    refuse_answer(url, "no \"blobId\" of " + printable(file.name));
  }
  if (file.bytes < 0 || file.bytes > kMostFileBytes) refuse_answer(url, "no size of " + printable(file.name));
  return file;
}

HubModel read_model(const std::string& text, const std::string& id, const std::string& url) {
  const auto json = [&] {
    try {
      return parse_json_object(text, url);
    } catch (const Error&) {
      refuse_answer(url, "it is not a JSON object");
    }
  }();
  HubModel model;
  model.id = id;
  model.commit = text_at(*json, "sha");
  if (!is_hexadecimal(model.commit, 40)) refuse_answer(url, "it has no commit (\"sha\")");
  const auto siblings = json->find("siblings");
  if (siblings == json->end() || !siblings->is_array()) refuse_answer(url, "it has no files (\"siblings\")");
  for (const nlohmann::json& entry : *siblings) model.files.push_back(read_file_entry(entry, url));
  return model;
}

}  // namespace

const HubFile* HubModel::find(const std::string& name) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](const HubFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

void require_model_id(const std::string& id) {
  const std::size_t slash = id.find('/');
  const bool has_owner = slash != std::string::npos;
  const bool fits = is_name_part(has_owner ? id.substr(slash + 1) : id) &&
                    (!has_owner || is_name_part(id.substr(0, slash))) && id.find("--") == std::string::npos &&
                    id.find("..") == std::string::npos && !ends_with(id, ".git");
  if (fits) return;
  throw UsageError("\"" + printable(id) + "\" is not a model's name on the Hub", "lockstep model get",
                   "give NAME or OWNER/NAME of letters, digits, '-', '_' and '.', such as bert-base-cased");
}

HubModel ask_hub(const HubSettings& settings, const std::string& id, const std::string& revision) {
  constexpr std::chrono::minutes kLongest{2};
  require_model_id(id);
  const std::string url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings.endpoint, id,
                                      url_encoded(revision, /*keeps_slashes=*/false));
  std::string text;
  const auto take = [&](std::string_view piece) {
    text.append(piece);
    if (text.size() > kMostAnswerBytes) refuse_answer(url, "it is too long");
  };
  const WebAnswer answer = send_request({url, 0, settings.token}, take, Deadline::after(kLongest));
  if (!answer.is_complete()) throw hub_refusal(settings, answer, id, revision, url);
  return read_model(text, id, url);
}

std::string hub_file_url(const HubSettings& settings, const HubModel& model, const std::string& name) {
  return fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, model.id, model.commit,
                     url_encoded(name, /*keeps_slashes=*/true));
}

}  // namespace lockstep
