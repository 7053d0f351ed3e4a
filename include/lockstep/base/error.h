#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// A failure that a user can cause or meet: what happened, where in the job, and what to do about it.
/// A broken invariant of our own is a bug: assert it instead.
///
/// The library throws and never prints or exits; `main` catches, prints once, and returns non-zero.
class Error : public std::runtime_error {
 public:
  /// @param what   what happened, with the values that made it happen
  /// @param where  rank, host, engine and step, or file and line
  /// @param fix    what the reader should try next
  Error(const std::string& what, const std::string& where, const std::string& fix)
      : std::runtime_error(what + "\n  where: " + where + "\n  fix: " + fix), what_(what), where_(where), fix_(fix) {}

  const std::string& happened() const noexcept { return what_; }
  const std::string& where() const noexcept { return where_; }
  const std::string& fix() const noexcept { return fix_; }

 private:
  std::string what_;
  std::string where_;
  std::string fix_;
};

/// A wait that reached its deadline.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// A command line or setting that makes no sense, found before anything was done. Commands exit with 2 for it.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// The text of `errno` value `code`, safe to call from any thread.
std::string errno_text(int code);

}  // namespace lockstep
