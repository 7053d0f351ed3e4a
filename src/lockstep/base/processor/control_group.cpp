#include "lockstep/base/processor/control_group.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

namespace lockstep {
namespace {

// Splits `text` at each single character `separator`.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool has_word(const std::string& list, const std::string& word) {
  for (const std::string& each : split(list, ',')) {
    if (each == word) return true;
  }
  return false;
}

// Undoes mountinfo's escapes in a path: a space is written as "\040".
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && std::sscanf(text.c_str() + i + 1, "%3o", &code) == 1 && code < 256) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The mount point of a hierarchy of groups, and the group that is mounted there.
struct Mount {
  std::string folder;
  std::string group;
  int version = 2;
};

// proc(5): "32 31 0:29 /group /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct".
std::vector<Mount> cpu_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : lines_of_file(root + "/proc/self/mountinfo")) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> place = split(line.substr(0, dash), ' ');
    const std::vector<std::string> kind = split(line.substr(dash + 3), ' ');
    if (place.size() < 5 || kind.size() < 3) continue;
    const bool is_v1 = kind[0] == "cgroup" && has_word(kind[2], "cpu");
    if (is_v1 || kind[0] == "cgroup2") mounts.push_back({unescaped(place[4]), unescaped(place[3]), is_v1 ? 1 : 2});
  }
  return mounts;
}

// The group of this process in the hierarchy that controls processor time; empty if there is none.
std::string own_group(const std::string& root, int version) {
  for (const std::string& line : lines_of_file(root + "/proc/self/cgroup")) {  // "4:cpu,cpuacct:/group", "0::/group"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version == 2 ? line.substr(0, first) == "0" && controllers.empty() : has_word(controllers, "cpu")) {
      return line.substr(second + 1);
    }
  }
  return "";
}

// The group's path below the mount, "/a/b". A mount may show only a part of the hierarchy, and the group may be outside
// of what this process sees ("/../a"): then the result is the mount itself.
std::string path_below(const Mount& mount, const std::string& group) {
  const std::string top = mount.group == "/" ? "" : mount.group;
  const bool is_below =
      group.compare(0, top.size(), top) == 0 && (group.size() == top.size() || group[top.size()] == '/');
  std::string path = is_below ? group.substr(top.size()) : "";
  if (path.find("/..") != std::string::npos) path.clear();
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

std::vector<ControlGroup> cpu_control_groups(const std::string& root) {
  std::vector<ControlGroup> groups;
  for (const Mount& mount : cpu_mounts(root)) {
    std::string path = path_below(mount, own_group(root, mount.version));
    for (; !path.empty(); path.resize(path.rfind('/'))) groups.push_back({root + mount.folder + path, mount.version});
    groups.push_back({root + mount.folder, mount.version});
  }
  return groups;
}

std::vector<std::string> lines_of_file(const std::string& path) {
  std::vector<std::string> lines;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!file) return lines;
  std::string line;
  for (int c = std::getc(file.get()); c != EOF; c = std::getc(file.get())) {
    if (c != '\n') line += static_cast<char>(c);
    if (c == '\n') lines.push_back(std::exchange(line, ""));
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace lockstep
