#include "lockstep/launch/ranks/group_rank.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

UniqueFd open_file(const std::string& path, int flags) {
  UniqueFd file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!file) {
    throw Error("cannot open " + path + ": " + errno_text(errno), "the launcher",
                "choose a folder that you may write to with --log-dir");
  }
  return file;
}

UniqueFd log_file(const std::string& path) { return open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND); }

// "[default0]:" as in torchrun, or the text of torchrun's variable for it.
std::string line_prefix(const RankPlace& place) {
  const char* pattern = std::getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (pattern == nullptr) return fmt::format("[{}{}]:", place.role, place.local_rank);
  std::string text = pattern;
  const std::pair<std::string, std::string> values[] = {{"${role_name}", place.role},
                                                        {"${local_rank}", std::to_string(place.local_rank)},
                                                        {"${rank}", std::to_string(place.rank)}};
  for (const auto& [name, value] : values) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

}  // namespace

int GroupRank::connect_stdout(const LauncherParts& parts, const std::string& folder) {
  const std::size_t i = index();
  const bool shown = parts.plan.shown[i];
  const std::string path = folder + "/stdout.log";
  if (parts.plan.tee[i].out) {
    out = std::make_unique<OutputStream>(
        parts.loop, OutputStream::Targets{shown ? &parts.out : nullptr, line_prefix(place), log_file(path),
                                          fmt::format("stdout of rank {}, {},", place.rank, path)});
    return out->write_end();
  }
  if (parts.plan.redirects[i].out) {
    out_file = log_file(path);
  } else if (!shown) {
    out_file = open_file("/dev/null", O_WRONLY);
  }
  return out_file.get();
}

int GroupRank::connect_stderr(const LauncherParts& parts, const std::string& folder) {
  const std::size_t i = index();
  const bool tee = parts.plan.tee[i].err;
  if (!tee && parts.plan.redirects[i].err) {
    err_path = folder + "/stderr.log";
    err_file = log_file(err_path);
    return err_file.get();
  }
  OutputStream::Targets targets;
  if (parts.plan.shown[i]) targets.console = &parts.err;
  if (tee) {
    targets.prefix = line_prefix(place);
    const std::string path = folder + "/stderr.log";
    targets.file = log_file(path);
    targets.name = fmt::format("stderr of rank {}, {},", place.rank, path);
  }
  err = std::make_unique<OutputStream>(parts.loop, std::move(targets));
  return err->write_end();
}

}  // namespace lockstep
