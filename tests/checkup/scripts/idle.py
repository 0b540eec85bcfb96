print("nothing is trained here")
