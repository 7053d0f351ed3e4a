#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/files/file_system.h"

namespace lockstep {

/// A file system that fails at a chosen call or byte. Syncs are only recorded; the effects of a power cut are computed
/// from the records.
class FaultyFileSystem : public FileSystem {
 public:
  /// The failure. With the first three the process dies; they differ in what was not synced.
  enum class Fault {
    Kill,       ///< everything is kept, as after kill -9
    LoseData,   ///< new names are kept, but their content is lost, as a power cut may leave it
    LoseNames,  ///< new and renamed names are lost, too
    Full        ///< no process dies: the disk is full, until `free_space`
  };

  /// @param at_call  number of the changing call that fails, counted from 0; negative: none
  /// @param at_byte  or the failure happens when this many bytes were written
  explicit FaultyFileSystem(Fault fault = Fault::Kill, std::int64_t at_call = -1, std::int64_t at_byte = -1)
      : fault_(fault), at_call_(at_call), at_byte_(at_byte) {}

  std::int64_t calls() const { return calls_; }
  std::int64_t bytes() const { return bytes_; }
  bool struck() const { return struck_; }
  void free_space() { at_call_ = at_byte_ = -1, full_ = false; }
  bool can_exchange = true;    ///< false: as on a file system that cannot swap two names
  bool ignores_syncs = false;  ///< a writer that forgets to sync

  int create(const std::string& path, mode_t mode) override;
  ssize_t write(int fd, const void* data, std::size_t size_bytes) override;
  int reserve(int fd, std::uint64_t size_bytes) override;
  int sync(int fd) override;
  int make_folder(const std::string& path, mode_t mode) override;
  int sync_folder(const std::string& path) override;
  int rename(const std::string& from, const std::string& to) override;
  int exchange(const std::string& a, const std::string& b) override;
  int remove_file(const std::string& path) override;
  int remove_folder(const std::string& path) override;

 private:
  struct Change {  // of a name; a power cut may undo it
    enum Kind { Created, Renamed, Exchanged } kind;
    std::string path;
    std::string other;
  };

  bool strikes(bool needs_space);
  void strike();
  void lose_data() const;
  void lose_names();
  void follow(const std::string& from, const std::string& to);

  Fault fault_;
  std::int64_t at_call_;
  std::int64_t at_byte_;
  std::int64_t calls_ = 0;
  std::int64_t bytes_ = 0;
  bool struck_ = false;
  bool full_ = false;
  std::map<int, std::string> open_;
  std::set<std::string> unsynced_;
  std::vector<Change> changes_;
};

}  // namespace lockstep
