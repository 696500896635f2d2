package access

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"unicode"
)

const (
	leastToken = 16
	mostToken  = 1024
	mostTokens = 1 << 20 // bytes of a file
)

// Tokens says whose token a request has. Nil: nobody needs one.
//
// No error and no line of a log has anything of the file but numbers of lines: where the two words of a line are in
// the wrong order, its name is a token.
type Tokens struct {
	entries *watched[[]token]
}

// token is not kept, only what it is compared by.
type token struct {
	name string
	hash [sha256.Size]byte
	// admin may change what is served.
	admin bool
}

// OpenTokens reads a file of lines `NAME TOKEN`, with a third word `admin` for who may change what is served. A name may have several tokens, of which one is given up later.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) {
	entries, err := watch("the tokens file "+path, []string{path}, func() ([]token, error) { return readTokens(path) }, log)
	if err != nil {
		return nil, err
	}
	return &Tokens{entries}, nil
}

// Who is the name of a token. All are compared, in a time that does not depend on how much of one is right.
func (t *Tokens) Who(presented string) (name string, ok bool) {
	found, ok := t.find(presented)
	return found.name, ok
}

func (t *Tokens) find(presented string) (found token, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	for _, one := range t.entries.get() {
		if subtle.ConstantTimeCompare(hash[:], one.hash[:]) == 1 {
			found, ok = one, true
		}
	}
	return found, ok
}

func readTokens(path string) ([]token, error) {
	// Not waiting for the other end, should it be a pipe.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("tokens_file: %w", err)
	}
	defer file.Close()
	// Of the file that is open: the path may stand for another one by now.
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("tokens_file: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("tokens_file: %s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("tokens_file: %s has the mode %#o, with which others may read or write it; chmod 600 %s", path, info.Mode().Perm(), path)
	case info.Size() > mostTokens:
		return nil, fmt.Errorf("tokens_file: %s has %d bytes, of at most %d", path, info.Size(), mostTokens)
	}
	text, err := io.ReadAll(io.LimitReader(file, mostTokens))
	if err != nil {
		return nil, fmt.Errorf("tokens_file: %w", err)
	}
	tokens, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("tokens_file: %s: %w", path, err)
	}
	return tokens, nil
}

func parseTokens(text []byte) ([]token, error) {
	var tokens []token
	lines := map[[sha256.Size]byte]int{}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		one, err := parseToken(line)
		if err != nil {
			return nil, fmt.Errorf("line %d %w", number, err)
		}
		if first := lines[one.hash]; first > 0 {
			return nil, fmt.Errorf("line %d has the token of line %d", number, first)
		}
		lines[one.hash] = number
		tokens = append(tokens, one)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("has no token: nobody could ask; it has lines `NAME TOKEN`")
	}
	return tokens, nil
}

func parseToken(line string) (token, error) {
	words := strings.Fields(line)
	switch {
	case len(words) != 2 && len(words) != 3:
		return token{}, fmt.Errorf("has %d words; it is `NAME TOKEN`, or `NAME TOKEN admin`", len(words))
	case len(words) == 3 && words[2] != "admin":
		return token{}, fmt.Errorf("has a third word that is not `admin`; it is `NAME TOKEN`, or `NAME TOKEN admin`")
	case len(words[0]) > mostLogged || strings.ContainsFunc(words[0], func(r rune) bool { return !unicode.IsPrint(r) }):
		return token{}, fmt.Errorf("has a name that is longer than %d bytes or cannot be printed", mostLogged)
	case len(words[1]) < leastToken || len(words[1]) > mostToken:
		return token{}, fmt.Errorf("has a token of %d characters, of %d to %d", len(words[1]), leastToken, mostToken)
	case strings.ContainsFunc(words[1], func(r rune) bool { return r <= ' ' || r > '~' }):
		return token{}, fmt.Errorf("has a token with a character that a header cannot have")
	}
	return token{words[0], sha256.Sum256([]byte(words[1])), len(words) == 3}, nil
}
