// Runs a program in a sandbox that answers one system call with an error, as those of containers do:
//   refuse_call NAME ERRNO PROGRAM ARGUMENTS...
// NAME is pidfd_open or clone3. Exit code 77: this kernel lets no process sandbox itself.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr unsigned kPidfdOpen = 434;  // of every architecture; older headers do not name them
constexpr unsigned kClone3 = 435;

bool refuse(unsigned call, unsigned code) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(filter) / sizeof(filter[0]), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const unsigned call = std::string(argv[1]) == "clone3" ? kClone3 : kPidfdOpen;
  if (!refuse(call, static_cast<unsigned>(std::atoi(argv[2])))) return 77;
  ::execv(argv[3], argv + 3);
  std::perror(argv[3]);
  return 126;
}
