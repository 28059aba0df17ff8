# class: network
# expect: lenient=denied standard=denied strict=denied
# note: reads /etc/hosts or queries the network
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import socket
    return "resolved: %r" % (socket.getaddrinfo("localhost", 80, proto=6)[0][4],)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
