package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// mostPath is what the kernel takes for the path of a socket.
const mostPath = 107

// Socket is the server's own, for as long as it holds the lock beside it.
type Socket struct {
	net.Listener
	lock      *os.File
	directory *os.File
}

// Listen binds a socket that the owner alone may use. Of two servers of a name the second one is refused; the socket of
// one that died is replaced. The lock decides: it ends with its process, and its file stays, so that all lock the same.
func Listen(path, name string) (*Socket, error) {
	directory, err := privateDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	lock, err := locked(path+".lock", name)
	if err != nil {
		directory.Close()
		return nil, err
	}
	s := &Socket{lock: lock, directory: directory}
	if err := s.bind(path); err != nil {
		s.release()
		return nil, fmt.Errorf("control.socket is %s, where nothing can listen: %w", path, err)
	}
	return s, nil
}

// privateDirectory is open, and the owner's alone.
func privateDirectory(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	info, err := directory.Stat()
	if err == nil && !owned(info) {
		err = fmt.Errorf("%s is another user's, who may replace the socket; name one in a directory of your own", path)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s has the mode %#o, with which others may reach the socket; chmod 700 %s", path, info.Mode().Perm(), path)
	}
	if err != nil {
		directory.Close()
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	return directory, nil
}

// owned says whether this user has it.
func owned(info fs.FileInfo) bool {
	of, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(of.Uid) == os.Geteuid()
}

// locked follows no link, and writes into no file but one of this user that it has locked.
func locked(path, name string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("control.socket: %s is a link, where the server has a file that it locks; remove it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	info, err := lock.Stat()
	if err == nil && (!info.Mode().IsRegular() || !owned(info)) {
		err = fmt.Errorf("%s is no file, or another user's, where the server has one that it locks; remove it", path)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("a server of the name %q is running already%s; give this one another name (`--name NAME`, or `name:` in its file)",
				name, holder(lock))
		}
		return nil, fmt.Errorf("control.socket: %s cannot be locked: %w", path, err)
	}
	// For messages alone.
	if err := lock.Truncate(0); err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("control.socket: %w", err)
	}
	return lock, nil
}

func holder(lock *os.File) string {
	text := make([]byte, 20)
	size, _ := lock.ReadAt(text, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:size]))); err == nil {
		return fmt.Sprintf(", as process %d", pid)
	}
	return ""
}

// bind is under the lock. The directory keeps others out until the socket has its mode.
func (s *Socket) bind(path string) error {
	if len(path) > mostPath {
		path = fmt.Sprintf("/proc/self/fd/%d/%s", s.directory.Fd(), filepath.Base(path))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	s.Listener = listener
	return os.Chmod(path, 0o600)
}

// Close removes the socket, then gives the name free.
func (s *Socket) Close() error {
	err := s.Listener.Close()
	s.release()
	return err
}

func (s *Socket) release() {
	if s.Listener != nil {
		s.Listener.Close()
	}
	s.lock.Close()
	s.directory.Close()
}
