package restapi

import (
	"fmt"
	"regexp"
	"strings"
)

// mostQuoted is how much of a name from a request an error repeats.
const mostQuoted = 80

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_\-]*$`)

// level is a list or an object that an offset lies within.
type level struct {
	object bool
	wants  bool // of an object: the next string is a key
	key    string
	index  int
}

// placeOf names the value at an offset as `instances[3].age`. It reads the text again from its start, which only an
// error costs, so that nothing is kept on the way for those that are none. What is before the offset is JSON.
func placeOf(text []byte, offset int) string {
	var levels []level
	s := scanner{text: text}
	for {
		c := s.peek()
		if s.at >= offset || c == 0 {
			return nameOf(levels)
		}
		top := len(levels) - 1
		switch c {
		case '[', '{':
			levels = append(levels, level{object: c == '{', wants: c == '{'})
			s.at++
		case ']', '}':
			if top >= 0 {
				levels = levels[:top]
			}
			s.at++
		case ',':
			if top >= 0 {
				levels[top].index++
				levels[top].wants = levels[top].object
			}
			s.at++
		case '"':
			value, err := s.str()
			if err != nil {
				return nameOf(levels)
			}
			if top >= 0 && levels[top].wants {
				levels[top].key, levels[top].wants = string(value), false
			}
		default:
			s.at++
		}
	}
}

func nameOf(levels []level) string {
	var name strings.Builder
	for _, l := range levels {
		switch {
		case !l.object:
			fmt.Fprintf(&name, "[%d]", l.index)
		case l.wants:
		case plainKey.MatchString(l.key) && len(l.key) <= mostQuoted:
			if name.Len() > 0 {
				name.WriteByte('.')
			}
			name.WriteString(l.key)
		default:
			fmt.Fprintf(&name, "[%s]", quoted(l.key))
		}
	}
	if name.Len() == 0 {
		return "the body"
	}
	return name.String()
}

// quoted is a string of a request as an error has it: on one line and not too long.
func quoted(text string) string {
	if len(text) > mostQuoted {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:mostQuoted], ""))
	}
	return fmt.Sprintf("%q", text)
}
